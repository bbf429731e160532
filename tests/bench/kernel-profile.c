/* SPDX-License-Identifier: Apache-2.0 */

/* A plugin of qemu for tests/bench/kernel --profile: counts the instructions that
 * are executed at each address, between marks that kernel-source.c makes.
 *
 *     qemu-system-x86_64 -plugin PLUGIN.so,out=FILE
 *
 * For each round FILE has a line "round", and "SIDE ADDRESS COUNT" for each block
 * of instructions that was executed. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel-profile.h"

/* Of qemu-plugin.h, which Debian 12 has in no package: version 1. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
int qemu_plugin_version = 1;
int qemu_plugin_install(qemu_plugin_id_t, const void *info, int argc, char **argv);
void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(
    struct qemu_plugin_tb *, int add, void *to, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn *, void (*)(unsigned int cpu, void *), int flags,
    void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(
    const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

enum { MAX_BLOCKS = 1 << 21, HASH_SIZE = 2 * MAX_BLOCKS };

static struct block {
    uint64_t address, count, kept[PROFILE_SIDES];
} blocks[MAX_BLOCKS];
static uint32_t n_blocks;
static uint32_t places[HASH_SIZE];      /* In 'blocks', plus 1. */
static FILE *out;

static struct block *
block_at(uint64_t address)
{
    uint64_t i = address * 0x9e3779b97f4a7c15u % HASH_SIZE;

    while (places[i] && blocks[places[i] - 1].address != address) {
        i = (i + 1) % HASH_SIZE;
    }
    if (!places[i]) {
        if (n_blocks == MAX_BLOCKS) {
            fputs("kernel-profile: too many blocks\n", stderr);
            exit(1);
        }
        blocks[n_blocks].address = address;
        places[i] = ++n_blocks;
    }
    return &blocks[places[i] - 1];
}

static void
write_round(void)
{
    fputs("round\n", out);
    for (uint32_t i = 0; i < n_blocks; i++) {
        for (int side = 0; side < PROFILE_SIDES; side++) {
            if (blocks[i].kept[side]) {
                fprintf(out, "%d %" PRIx64 " %" PRIu64 "\n", side,
                        blocks[i].address, blocks[i].kept[side]);
            }
        }
    }
    fflush(out);
}

/* Executed before the instruction that is the mark. */
static void
meet_mark(unsigned int cpu, void *number)
{
    uintptr_t mark = (uintptr_t) number;

    (void) cpu;
    for (uint32_t i = 0; i < n_blocks; i++) {
        if (mark < PROFILE_SIDES) {
            blocks[i].kept[mark] += blocks[i].count;
        } else if (mark == PROFILE_ROUND) {
            memset(blocks[i].kept, 0, sizeof blocks[i].kept);
        }
        blocks[i].count = 0;
    }
    if (mark == PROFILE_END) {
        write_round();
    }
}

static void
translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    static const uint8_t begins[] = { PROFILE_MARK_BYTES };
    size_t n = qemu_plugin_tb_n_insns(tb);
    uint64_t address = qemu_plugin_tb_vaddr(tb);

    (void) id;
    /* User space is one: each process has addresses of its own. */
    qemu_plugin_register_vcpu_tb_exec_inline(
        tb, 0, &block_at(address >> 63 ? address : 0)->count, n);
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const uint8_t *code = qemu_plugin_insn_data(insn);

        if (qemu_plugin_insn_size(insn) == sizeof begins + 1
            && !memcmp(code, begins, sizeof begins)) {
            qemu_plugin_register_vcpu_insn_exec_cb(
                insn, meet_mark, 0, (void *) (uintptr_t) code[sizeof begins]);
        }
    }
}

int
qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void) info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) || !(out = fopen(argv[0] + 4, "w"))) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
