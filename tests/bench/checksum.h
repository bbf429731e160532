/* SPDX-License-Identifier: Apache-2.0 */

/* Checksums in full (RFC 1071), for the packets that the benchmarks make. */

#ifndef CHECKSUM_H
#define CHECKSUM_H 1

#include <stddef.h>
#include <stdint.h>

/* Of 'n' bytes, an even number, in words. */
static inline uint32_t
sum_words(const uint8_t *p, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i += 2) {
        sum += (uint32_t) (p[i] << 8 | p[i + 1]);
    }
    return sum;
}

static inline uint16_t
checksum(uint32_t sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    return (uint16_t) ~(sum + (sum >> 16));
}

/* Of TCP over IPv4 or IPv6 without payload (RFC 9293 section 3.1). */
static inline uint16_t
tcp_checksum(const uint8_t *ip, const uint8_t *tcp, uint32_t tcp_len)
{
    uint32_t sum = ip[0] >> 4 == 6 ? sum_words(ip + 8, 32, 6 + tcp_len)
                                   : sum_words(ip + 12, 8, 6 + tcp_len);

    return checksum(sum_words(tcp, tcp_len, sum));
}

#endif /* checksum.h */
