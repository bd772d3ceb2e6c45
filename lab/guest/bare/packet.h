/* A packet that is turned into its answer, in the memory in which it came. */
#ifndef PACKET_H
#define PACKET_H

#include "machine.h"

struct packet {
  u8 *ethernet, *ip, *content;
  /* Of the content: what comes after the IP header. */
  u32 length;
  bool is_ipv6;
};

/* Fields in network byte order. */
static inline u16 get16(const u8 *at) { return swap16(*(const u16 *)at); }
static inline u32 get32(const u8 *at) { return swap32(*(const u32 *)at); }
static inline void set16(u8 *at, u16 value) { *(u16 *)at = swap16(value); }
static inline void set32(u8 *at, u32 value) { *(u32 *)at = swap32(value); }

/* Protocol numbers (IANA, Protocol Numbers). */
enum { ICMP = 1, TCP = 6, UDP = 17, ICMPV6 = 58 };

enum { PORT_ECHO = 7 }; /* RFC 862 */

/* Swaps two neighbouring fields of the same length. */
void swap_fields(u8 *at, u32 length);

/* Writes the content's checksum at an offset, over the pseudo header of TCP, UDP and ICMPv6. */
void write_checksum(struct packet *packet, u8 protocol, u32 offset);

/* Take a frame or a packet and return the length of the frame that answers it; 0 is none. */
u32 answer_frame(u8 *frame, u32 length);
u32 answer_tcp(struct packet *packet);

/* Sends the packet back to where it came from, with the content's new length. Returns the length of the frame. */
u32 return_packet(struct packet *packet);

void network_set_address(const u8 ipv4[4], const u8 mac[6]);

#endif
