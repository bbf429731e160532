-- SPDX-License-Identifier: Apache-2.0
--
-- Wireshark: what AC/DC puts into TCP headers (docs/wire-format.rst).  `acdc` as a display filter
-- has its packets; the fields are `acdc.*`.
--
-- It runs after Wireshark's own dissectors and takes nothing from them, so options of kind 253
-- with another ExID stay theirs.  It reads the bytes of each TCP header of a frame, also inside
-- tunnels.

local KIND, CAPABILITY, FEEDBACK, REPORT, STATE = 253, 8, 12, 20, 28
local NOT_ECT, RESUME, TIMING, SCALES = 0x01, 0x02, 0x04, 0x08
local MOD = 4294967296
-- As a switch: so many reports in a row that cannot be, and counting starts anew.
local BAD_REPORTS = 4

local acdc = Proto("acdc", "AC/DC congestion control of virtual switches")
acdc.prefs.exid = Pref.uint("ExID", 0xacdc,
    "Experiment identifier of the options: Open_vSwitch other_config:acdc-exid (44252 is 0xacdc)")

local ENCODING = { [0] = "Not-ECT", [1] = "ECT(1)", [2] = "ECT(0)", [3] = "left as it is" }
local ENCODING_NOT_ECT = { [0] = "left as it is", [1] = "ECT(1)", [2] = "ECT(0)", [3] = "Not-ECT" }
local ENCODING_UNKNOWN = {
    [0] = "Not-ECT, or left as it is with NOT_ECT", [1] = "ECT(1)", [2] = "ECT(0)",
    [3] = "left as it is, or Not-ECT with NOT_ECT",
}

local f = {
    kind = ProtoField.uint8("acdc.kind", "Kind"),
    length = ProtoField.uint8("acdc.length", "Length"),
    exid = ProtoField.uint16("acdc.exid", "ExID", base.HEX),
    version = ProtoField.uint8("acdc.version", "Version"),
    flags = ProtoField.uint8("acdc.flags", "Flags", base.HEX),
    not_ect = ProtoField.bool("acdc.flags.not_ect", "NOT_ECT: reserved bits 11 are Not-ECT", 8, nil,
        NOT_ECT),
    resume = ProtoField.bool("acdc.flags.resume",
        "RESUME: connections are taken up again; without SYN a question", 8, nil, RESUME),
    timing = ProtoField.bool("acdc.flags.timing",
        "TIMING: marked data is reported with its time", 8, nil, TIMING),
    scales = ProtoField.bool("acdc.flags.scales",
        "SCALES: also where guests are told finer window scales", 8, nil, SCALES),
    own_told = ProtoField.uint8("acdc.told.own_wscale",
        "Told of the window scale of who gets this", base.DEC, nil, 0xf0),
    peer_told = ProtoField.uint8("acdc.told.peer_wscale",
        "Told of the window scale of who sends this", base.DEC, nil, 0x0f),
    mark = ProtoField.uint8("acdc.report.mark", "Marked segment", base.HEX),
    ago = ProtoField.uint24("acdc.report.ago_us", "Came so many microseconds ago"),
    clock = ProtoField.uint32("acdc.report.clock_us", "At, in microseconds of the reporting end"),
    number = ProtoField.uint16("acdc.number", "Number of the question", base.HEX),
    state_flags = ProtoField.uint8("acdc.state.flags", "Flags of the state", base.HEX),
    own_wscale = ProtoField.uint8("acdc.state.own_wscale",
        "Window scale of who asked", base.DEC, nil, 0xf0),
    peer_wscale = ProtoField.uint8("acdc.state.peer_wscale",
        "Window scale of who answers", base.DEC, nil, 0x0f),
    mss = ProtoField.uint16("acdc.state.mss", "MSS"),
    told_ecn = ProtoField.uint32("acdc.state.reported_ecn_bytes", "ECN_bytes reported last"),
    told_total = ProtoField.uint32("acdc.state.reported_total_bytes", "total_bytes reported last"),
    ecn_bytes = ProtoField.uint32("acdc.ecn_bytes", "ECN_bytes"),
    total_bytes = ProtoField.uint32("acdc.total_bytes", "total_bytes"),
    ecn_relative = ProtoField.uint64("acdc.ecn_bytes.relative", "ECN_bytes, relative"),
    total_relative = ProtoField.uint64("acdc.total_bytes.relative", "total_bytes, relative"),
    ecn_delta = ProtoField.int64("acdc.ecn_bytes.delta", "ECN_bytes since the previous report"),
    total_delta = ProtoField.int64("acdc.total_bytes.delta", "total_bytes since the previous report"),
    fraction = ProtoField.double("acdc.fraction", "Marked fraction since the previous report"),
    sent = ProtoField.uint64("acdc.sent_bytes", "Payload bytes sent that way in this capture"),
    value = ProtoField.bytes("acdc.value", "Value"),
    reserved = ProtoField.uint8("acdc.reserved", "Reserved bits", base.HEX),
    fack = ProtoField.bool("acdc.reserved.fack", "FACK, or marked data", 8, nil, 0x08),
    ecn = ProtoField.uint8("acdc.reserved.ecn", "Guest's ECN codepoint", base.DEC, nil, 0x06),
    ae = ProtoField.bool("acdc.reserved.ae", "AE (the guest's)", 8, nil, 0x01),
}
local fields = {}
for _, field in pairs(f) do
    fields[#fields + 1] = field
end
acdc.fields = fields

local impossible, warning, note =
    expert.severity.ERROR, expert.severity.WARN, expert.severity.NOTE
local e = {
    marked = ProtoExpert.new("acdc.more_marked", "More bytes marked than arrived",
        expert.group.PROTOCOL, impossible),
    backwards = ProtoExpert.new("acdc.backwards", "ECN_bytes goes back while total_bytes grows",
        expert.group.SEQUENCE, impossible),
    unsent = ProtoExpert.new("acdc.more_than_sent",
        "More bytes reported than were sent, or the capture lacks packets",
        expert.group.SEQUENCE, warning),
    stale = ProtoExpert.new("acdc.stale",
        "total_bytes goes back: overtaken or sent again, and ignored by the switch",
        expert.group.SEQUENCE, note),
    on_syn = ProtoExpert.new("acdc.feedback_on_syn", "Feedback on SYN or RST, where none may be",
        expert.group.PROTOCOL, warning),
    unknown = ProtoExpert.new("acdc.unknown_length", "Length without a meaning in version 1",
        expert.group.UNDECODED, note),
}
local experts = {}
for _, field in pairs(e) do
    experts[#experts + 1] = field
end
acdc.experts = experts

local tcp_field = Field.new("tcp")
local stream_field = Field.new("tcp.stream")
local length_field = Field.new("tcp.len")

local streams   -- What is known of each connection, by number.
local frames    -- What the first pass found out, by frame and header.

function acdc.init()
    streams, frames = {}, {}
end

-- The AC/DC option in 'header' (a TvbRange): its offset and length.
local function find_option(header)
    local at, stop = 20, header:len()
    while at + 1 < stop do
        local kind, length = header(at, 1):uint(), header(at + 1, 1):uint()
        if kind == 0 then
            return nil
        elseif kind == 1 then
            at = at + 1
        elseif length < 2 or at + length > stop then
            return nil
        else
            if kind == KIND and length >= 4 and header(at + 2, 2):uint() == acdc.prefs.exid then
                return at, length
            end
            at = at + length
        end
    end
    return nil
end

-- 'now' - 'before' of counters modulo 2^32, from -2^31.
local function difference(now, before)
    return (now - before + MOD / 2) % MOD - MOD / 2
end

-- One direction of a connection: the bytes sent, and the other end's reports of them.
local function direction(stream, key)
    stream[key] = stream[key] or { sent = 0 }
    return stream[key]
end

local function is_not_ect(stream)
    local offered = 0
    for _, side in pairs(stream) do
        if side.capability then
            if side.capability % 2 ~= NOT_ECT then
                return false
            end
            offered = offered + 1
        end
    end
    if offered == 2 then
        return true
    end
    return nil
end

-- What a report says after those before it.
local function follow(side, ecn, total)
    local r = { sent = side.syn and side.sent }
    if not side.last then
        -- Counts begin with the handshake, if the capture has that.
        local from = side.syn and 0
        side.last = { ecn = from or ecn, total = from or total, ecn_sum = 0, total_sum = 0 }
    end
    local last = side.last
    r.ecn_delta, r.total_delta = difference(ecn, last.ecn), difference(total, last.total)
    r.ecn_sum, r.total_sum = last.ecn_sum + r.ecn_delta, last.total_sum + r.total_delta
    r.stale = r.total_delta < 0
    r.backwards = not r.stale and r.ecn_delta < 0
    r.marked = not r.stale and r.ecn_delta > r.total_delta
    r.unsent = r.sent and r.total_sum > r.sent
    if r.stale or r.backwards then
        return r
    end
    side.bad = (r.marked or r.unsent) and (side.bad or 0) + 1 or 0
    if side.bad % BAD_REPORTS == 0 then
        side.last = { ecn = ecn, total = total, ecn_sum = r.ecn_sum, total_sum = r.total_sum }
        side.sent = math.max(side.sent, r.total_sum)
    end
    return r
end

local function is_feedback(length)
    return length == FEEDBACK or length == REPORT
end

-- The first pass over a header: all that depends on earlier packets.
local function learn(header, stream, ours, theirs, payload, at, length)
    local flags = header(13, 1):uint()
    local syn, rst = flags % 4 >= 2, flags % 8 >= 4
    local r = { syn = syn, misplaced = (syn or rst) and is_feedback(length) }
    local mine, reverse = direction(stream, ours), direction(stream, theirs)
    if syn then
        mine.syn = true
        -- One sent again without the option is what counts.
        mine.capability = length == CAPABILITY and header(at + 5, 1):uint() or nil
    end
    mine.sent = mine.sent + payload
    if is_feedback(length) then
        mine.talks = true
        r.report = follow(reverse, header(at + 4, 4):uint(), header(at + 8, 4):uint())
    end
    r.both = mine.capability and reverse.capability and true or mine.talks or reverse.talks
    if not syn then
        r.not_ect = is_not_ect(stream)
    else
        r.not_ect = false
    end
    return r
end

local function add_told(tree, byte)
    tree:add(f.own_told, byte)
    tree:add(f.peer_told, byte)
end

local function add_capability(tree, option, r)
    tree:add(f.version, option(4, 1))
    local flags = tree:add(f.flags, option(5, 1))
    flags:add(f.not_ect, option(5, 1))
    flags:add(f.resume, option(5, 1))
    flags:add(f.timing, option(5, 1))
    flags:add(f.scales, option(5, 1))
    if r and r.syn then
        if option(6, 1):uint() ~= 0 then
            add_told(tree, option(6, 1))
        end
    elseif option(6, 2):uint() ~= 0 then
        tree:add(f.number, option(6, 2))
    end
end

local function add_state(tree, option)
    tree:add(f.state_flags, option(4, 1))
    tree:add(f.own_wscale, option(5, 1))
    tree:add(f.peer_wscale, option(5, 1))
    tree:add(f.mss, option(6, 2))
    tree:add(f.number, option(8, 2))
    if option(4, 1):bitfield(2) == 1 then
        add_told(tree, option(10, 1))
    end
    tree:add(f.told_ecn, option(12, 4))
    tree:add(f.told_total, option(16, 4))
    tree:add(f.ecn_bytes, option(20, 4))
    tree:add(f.total_bytes, option(24, 4))
end

local function count(value)
    return UInt64.new(value % MOD, math.floor(value / MOD))
end

local function add_report(tree, option, r)
    tree:add(f.ecn_bytes, option(4, 4))
    tree:add(f.total_bytes, option(8, 4))
    if option:len() == REPORT then
        tree:add(f.mark, option(12, 1))
        tree:add(f.ago, option(13, 3))
        tree:add(f.clock, option(16, 4))
    end
    if not r then
        return
    end
    if r.ecn_sum >= 0 and r.total_sum >= 0 then
        tree:add(f.ecn_relative, count(r.ecn_sum)):set_generated()
        tree:add(f.total_relative, count(r.total_sum)):set_generated()
    end
    tree:add(f.ecn_delta, Int64.new(r.ecn_delta)):set_generated()
    tree:add(f.total_delta, Int64.new(r.total_delta)):set_generated()
    if r.total_delta > 0 then
        tree:add(f.fraction, r.ecn_delta / r.total_delta):set_generated()
    end
    if r.sent then
        tree:add(f.sent, count(r.sent)):set_generated()
    end
    for _, name in ipairs({ "stale", "backwards", "marked", "unsent" }) do
        if r[name] then
            tree:add_proto_expert_info(e[name])
        end
    end
end

local function add_option(tree, option, r)
    local length = option:len()
    local names = {
        [CAPABILITY] = "capability", [FEEDBACK] = "feedback", [REPORT] = "report", [STATE] = "state",
    }
    local sub = tree:add(acdc, option, "Option: " .. (names[length] or "unknown"))
    sub:add(f.kind, option(0, 1))
    sub:add(f.length, option(1, 1))
    sub:add(f.exid, option(2, 2))
    if length == CAPABILITY then
        add_capability(sub, option, r)
    elseif is_feedback(length) then
        add_report(sub, option, r and r.report)
        if r and r.misplaced then
            sub:add_proto_expert_info(e.on_syn)
        end
    elseif length == STATE then
        add_state(sub, option)
    else
        if length > 4 then
            sub:add(f.value, option(4))
        end
        sub:add_proto_expert_info(e.unknown)
    end
end

local function add_reserved(tree, byte, r)
    local bits = byte:uint() % 16
    local ecn = math.floor(bits / 2) % 4
    local encoding = ENCODING_UNKNOWN
    if r.not_ect ~= nil then
        encoding = r.not_ect and ENCODING_NOT_ECT or ENCODING
    end
    local sub = tree:add(f.reserved, byte, bits)
    sub:add(f.fack, byte)
    sub:add(f.ecn, byte):append_text(" (" .. encoding[ecn] .. ")")
    sub:add(f.ae, byte)
end

-- In the column of information: what this packet is to AC/DC.
local function title(header, at, length)
    if length == CAPABILITY then
        return math.floor(header(13, 1):uint() / 2) % 2 == 1 and "capability" or "question"
    elseif length == STATE then
        return "state"
    elseif is_feedback(length) then
        local fack = math.floor(header(12, 1):uint() / 8) % 2 == 1
        return string.format("%s ECN_bytes=%.0f total_bytes=%.0f", fack and "FACK" or "PACK",
            header(at + 4, 4):uint(), header(at + 8, 4):uint())
    elseif length then
        return string.format("option of %d bytes", length)
    end
    return nil
end

local function dissect_header(header, stream, payload, pinfo, tree, index)
    local at, length = find_option(header)
    local key = pinfo.number .. "." .. index
    if stream and not pinfo.visited then
        local ports = { header(0, 2):uint(), header(2, 2):uint() }
        local ours = tostring(pinfo.src) .. " " .. ports[1]
        local theirs = tostring(pinfo.dst) .. " " .. ports[2]
        streams[stream] = streams[stream] or {}
        frames[key] = learn(header, streams[stream], ours, theirs, payload, at, length)
    end
    local r = frames[key]
    if not at and not (r and r.both) then
        return
    end
    local name = title(header, at, length)
    local sub = tree:add(acdc, header, "AC/DC" .. (name and ": " .. name or ""))
    if at then
        add_option(sub, header(at, length), r)
        pinfo.cols.info:append(" [AC/DC " .. name .. "]")
    end
    add_reserved(sub, header(12, 1), r or {})
end

function acdc.dissector(_, pinfo, tree)
    local headers, numbers, lengths = { tcp_field() }, { stream_field() }, { length_field() }
    -- A header quoted by ICMP is of no connection.
    local known = #headers == #numbers and #headers == #lengths
    for i, info in ipairs(headers) do
        if info.len >= 20 then
            dissect_header(info.range, known and numbers[i].value, known and lengths[i].value,
                pinfo, tree, i)
        end
    end
end

register_postdissector(acdc)
