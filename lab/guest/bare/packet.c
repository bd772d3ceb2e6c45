#include "packet.h"

static u8 own_ipv4[4], own_mac[6];

void network_set_address(const u8 ipv4[4], const u8 mac[6]) {
  memcpy(own_ipv4, ipv4, 4);
  memcpy(own_mac, mac, 6);
}

void swap_fields(u8 *at, u32 length) {
  u8 saved[16];
  memcpy(saved, at, length);
  memcpy(at, at + length, length);
  memcpy(at + length, saved, length);
}

/* RFC 1071: the sum does not depend on the byte order, so it is made of words as they lie. */
static u64 sum_of(const u8 *at, u32 length, u64 sum) {
  for (; length >= 4; length -= 4, at += 4) sum += *(const u32 *)at;
  if (length & 2) sum += *(const u16 *)at, at += 2;
  if (length & 1) sum += *at;
  return sum;
}

static u16 folded(u64 sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (u16)~sum;
}

/* RFC 9293, 3.1 and RFC 8200, 8.1: addresses, length and protocol. */
void write_checksum(struct packet *packet, u8 protocol, u32 offset) {
  *(u16 *)(packet->content + offset) = 0;
  u64 sum = swap16((u16)packet->length) + swap16(protocol);
  sum = packet->is_ipv6 ? sum_of(packet->ip + 8, 32, sum) : sum_of(packet->ip + 12, 8, sum);
  *(u16 *)(packet->content + offset) = folded(sum_of(packet->content, packet->length, sum));
}

/* RFC 826. Fields: kind of answer at 6, sender at 8 and 14, target at 18 and 24. */
static u32 answer_arp(u8 *frame, u32 length) {
  enum { HEADER = 14, BYTES = 28, REQUEST = 1, REPLY = 2 };
  u8 *arp = frame + HEADER;
  if (length < HEADER + BYTES || get16(arp + 6) != REQUEST) return 0;
  if (memcmp(arp + 24, own_ipv4, 4) != 0) return 0;
  set16(arp + 6, REPLY);
  swap_fields(arp + 8, 10);
  memcpy(arp + 8, own_mac, 6);
  memcpy(frame, frame + 6, 6);
  memcpy(frame + 6, own_mac, 6);
  return HEADER + BYTES;
}

u32 return_packet(struct packet *packet) {
  u8 *ip = packet->ip;
  memcpy(packet->ethernet, packet->ethernet + 6, 6);
  memcpy(packet->ethernet + 6, own_mac, 6);
  if (packet->is_ipv6) {
    set16(ip + 4, (u16)packet->length);
  } else {
    set16(ip + 2, (u16)(packet->content - ip + packet->length));
    *(u16 *)(ip + 10) = 0;
    *(u16 *)(ip + 10) = folded(sum_of(ip, packet->content - ip, 0));
  }
  return (u32)(packet->content - packet->ethernet) + packet->length;
}

/* RFC 792 and RFC 4443: an echo differs from its request in the type alone. The change is taken out of the checksum. */
static u32 answer_echo(struct packet *packet, u8 reply) {
  u8 *icmp = packet->content;
  u64 without = (u16)~*(u16 *)(icmp + 2) + (u64)(u16)~(u16)icmp[0] + reply;
  *(u16 *)(icmp + 2) = folded(without);
  icmp[0] = reply;
  return return_packet(packet);
}

/* RFC 4861, 4.3 and 4.4. The guest has every address that is asked for. */
static u32 answer_solicitation(struct packet *packet) {
  enum { TARGET = 8, OPTION = 24, LENGTH = 32, ADVERTISEMENT = 136, TARGET_LINK_ADDRESS = 2 };
  enum { SOLICITED_OVERRIDE = 0x60000000 };
  u8 *icmp = packet->content;
  /* A host without an address asks whether it may have this one, and must hear nothing (RFC 4862, 5.4). */
  static const u8 unspecified[16];
  if (packet->length < OPTION || memcmp(packet->ip + 24, unspecified, 16) == 0) return 0;
  memcpy(packet->ip + 8, icmp + TARGET, 16);
  icmp[0] = ADVERTISEMENT;
  set32(icmp + 4, (u32)SOLICITED_OVERRIDE);
  icmp[OPTION] = TARGET_LINK_ADDRESS;
  icmp[OPTION + 1] = 1;
  memcpy(icmp + OPTION + 2, own_mac, 6);
  packet->length = LENGTH;
  write_checksum(packet, ICMPV6, 2);
  return return_packet(packet);
}

/* RFC 768. Swapped ports leave the checksum as it is. */
static u32 answer_udp(struct packet *packet) {
  if (packet->length < 8 || get16(packet->content + 2) != PORT_ECHO) return 0;
  swap_fields(packet->content, 2);
  return return_packet(packet);
}

static u32 answer_ipv4(struct packet *packet, u32 available) {
  enum { HEADER = 20, FRAGMENTED = 0x3fff };
  u8 *ip = packet->ip;
  if (available < HEADER || ip[0] != 0x45 || (get16(ip + 6) & FRAGMENTED) != 0) return 0;
  u32 total = get16(ip + 2);
  if (total < HEADER || total > available || memcmp(ip + 16, own_ipv4, 4) != 0) return 0;
  packet->content = ip + HEADER;
  packet->length = total - HEADER;
  swap_fields(ip + 12, 4);
  if (ip[9] == ICMP && packet->length >= 8 && packet->content[0] == 8) return answer_echo(packet, 0);
  if (ip[9] == UDP) return answer_udp(packet);
  return ip[9] == TCP ? answer_tcp(packet) : 0;
}

static u32 answer_ipv6(struct packet *packet, u32 available) {
  enum { HEADER = 40, MULTICAST = 0xff, ECHO_REQUEST = 128, ECHO_REPLY = 129, SOLICITATION = 135 };
  u8 *ip = packet->ip;
  if (available < HEADER || HEADER + get16(ip + 4) > available) return 0;
  packet->is_ipv6 = true;
  packet->content = ip + HEADER;
  packet->length = get16(ip + 4);
  bool is_multicast = ip[24] == MULTICAST;
  swap_fields(ip + 8, 16);
  if (ip[6] == ICMPV6 && packet->length >= 8) {
    if (packet->content[0] == SOLICITATION) return answer_solicitation(packet);
    if (packet->content[0] == ECHO_REQUEST && !is_multicast) return answer_echo(packet, ECHO_REPLY);
  }
  if (is_multicast) return 0;
  if (ip[6] == UDP) return answer_udp(packet);
  return ip[6] == TCP ? answer_tcp(packet) : 0;
}

u32 answer_frame(u8 *frame, u32 length) {
  enum { HEADER = 14, TYPE = 12, IPV4 = 0x0800, ARP = 0x0806, IPV6 = 0x86dd };
  if (length < HEADER) return 0;
  struct packet packet = {.ethernet = frame, .ip = frame + HEADER};
  switch (get16(frame + TYPE)) {
    case ARP:
      return answer_arp(frame, length);
    case IPV4:
      return answer_ipv4(&packet, length - HEADER);
    case IPV6:
      return answer_ipv6(&packet, length - HEADER);
    default:
      return 0;
  }
}
