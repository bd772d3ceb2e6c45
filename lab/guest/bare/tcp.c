/*
 * TCP as far as an echo needs it (RFC 9293). There is no timer: each segment is sent as the answer to one that came, so a
 * lost answer is sent again when the peer repeats itself. Connections are in memory alone, and live as long as it does.
 */
#include "packet.h"

enum { HEADER = 20, FIN = 0x01, SYN = 0x02, RST = 0x04, PSH = 0x08, ACK = 0x10 };
enum { CONNECTIONS = 8, BUFFER_BYTES = 4096, SEGMENT_BYTES = 1400, ADDRESSES_BYTES = 32 };
/* The maximum segment size option (RFC 9293, 3.2), and what holds if the peer sends none. */
enum { MSS_OPTION = 2, MSS_BYTES = 4, DEFAULT_MSS = 536 };

struct connection {
  bool is_used, is_opening, has_peer_ended, is_ipv6;
  /* As they are in an answer: our address and port come first. */
  u8 addresses[ADDRESSES_BYTES], ports[4];
  /* SND.UNA, SND.NXT, SND.WND, RCV.NXT (RFC 9293, 3.3.1), and the window that the peer was told last. */
  u32 unacknowledged, next, window, expected, told_window;
  u16 mss;
  /* What was received and is not acknowledged yet as echo. */
  u32 stored;
  u8 buffer[BUFFER_BYTES];
};

static struct connection connections[CONNECTIONS];

/* A received segment, read before its memory becomes the answer. */
struct segment {
  u32 sequence, acknowledged, window, length;
  u8 flags;
  const u8 *data;
  u16 mss;
};

struct reply {
  u32 sequence, acknowledged, length;
  u16 window;
  u8 flags;
  const u8 *data;
};

static u32 send_reply(struct packet *packet, struct reply reply) {
  u8 *tcp = packet->content;
  u32 options = (reply.flags & SYN) ? MSS_BYTES : 0;
  set32(tcp + 4, reply.sequence);
  set32(tcp + 8, reply.acknowledged);
  tcp[12] = (u8)((HEADER + options) / 4 << 4);
  tcp[13] = reply.flags;
  set16(tcp + 14, reply.window);
  set16(tcp + 18, 0);
  if (options != 0) set32(tcp + HEADER, (u32)MSS_OPTION << 24 | (u32)MSS_BYTES << 16 | SEGMENT_BYTES);
  if (reply.length > 0) memcpy(tcp + HEADER, reply.data, reply.length);
  packet->length = HEADER + options + reply.length;
  write_checksum(packet, TCP, 16);
  return return_packet(packet);
}

static const u8 *addresses_of(const struct packet *packet) {
  return packet->ip + (packet->is_ipv6 ? 8 : 12);
}

static u32 addresses_length(bool is_ipv6) { return is_ipv6 ? 32 : 8; }

static struct connection *find_connection(const struct packet *packet) {
  u32 length = addresses_length(packet->is_ipv6);
  for (struct connection *at = connections; at < connections + CONNECTIONS; at++) {
    if (!at->is_used || at->is_ipv6 != packet->is_ipv6) continue;
    if (memcmp(at->ports, packet->content, 4) != 0) continue;
    if (memcmp(at->addresses, addresses_of(packet), length) == 0) return at;
  }
  return NULL;
}

/* Returns a free connection, or takes the next one in turn from a peer that may be long gone. */
static struct connection *take_connection(void) {
  static u32 turn;
  for (struct connection *at = connections; at < connections + CONNECTIONS; at++)
    if (!at->is_used) return at;
  return &connections[turn++ % CONNECTIONS];
}

static u32 room_of(const struct connection *connection) { return BUFFER_BYTES - connection->stored; }

static u32 accept(struct packet *packet, struct connection *at) {
  at->is_opening = true;
  struct reply reply = {.sequence = at->unacknowledged,
                        .acknowledged = at->expected,
                        .window = BUFFER_BYTES,
                        .flags = SYN | ACK};
  at->told_window = BUFFER_BYTES;
  return send_reply(packet, reply);
}

static u32 open(struct packet *packet, const struct segment *segment) {
  struct connection *at = take_connection();
  *at = (struct connection){.is_used = true, .is_ipv6 = packet->is_ipv6};
  memcpy(at->addresses, addresses_of(packet), addresses_length(packet->is_ipv6));
  memcpy(at->ports, packet->content, 4);
  at->unacknowledged = (u32)time_stamp();
  at->next = at->unacknowledged + 1;
  at->expected = segment->sequence + 1;
  at->window = segment->window;
  at->mss = segment->mss < SEGMENT_BYTES ? segment->mss : SEGMENT_BYTES;
  return accept(packet, at);
}

/* RFC 9293, 3.10.7.1: a segment for no connection. */
static u32 refuse(struct packet *packet, const struct segment *segment) {
  if (segment->flags & RST) return 0;
  if (segment->flags & ACK) return send_reply(packet, (struct reply){.sequence = segment->acknowledged, .flags = RST});
  u32 length = segment->length + ((segment->flags & (SYN | FIN)) != 0);
  return send_reply(packet, (struct reply){.acknowledged = segment->sequence + length, .flags = RST | ACK});
}

/* Drops what the peer has acknowledged. Returns false when our end was acknowledged too: the connection is over. */
static bool drop_acknowledged(struct connection *at, const struct segment *segment) {
  u32 count = segment->acknowledged - at->unacknowledged;
  at->window = segment->window;
  if (count == 0 || count > at->next - at->unacknowledged) return true;
  at->unacknowledged = segment->acknowledged;
  if (at->is_opening) {
    at->is_opening = false;
    count--;
  }
  u32 bytes = count < at->stored ? count : at->stored;
  at->stored -= bytes;
  /* Forward, so that the two may overlap. */
  memcpy(at->buffer, at->buffer + bytes, at->stored);
  return count <= bytes;
}

enum taken { NOTHING, NEWS, REPEATED };

/* Stores new data. Data before a gap is not kept: the peer sends it again. */
static enum taken take_data(struct connection *at, const struct segment *segment) {
  bool ends = (segment->flags & FIN) != 0;
  u32 length = segment->length, before = at->expected - segment->sequence;
  if (length == 0 && !ends) return before == 0 ? NOTHING : REPEATED;
  if (at->has_peer_ended || (i32)before < 0 || before >= length + ends) return REPEATED;
  u32 wanted = length > before ? length - before : 0;
  u32 taken = wanted < room_of(at) ? wanted : room_of(at);
  memcpy(at->buffer + at->stored, segment->data + before, taken);
  at->stored += taken;
  at->expected += taken;
  if (ends && taken == wanted) {
    at->expected++;
    at->has_peer_ended = true;
  }
  return NEWS;
}

/* Sends the echo that is due, with the acknowledgement of what came. */
static u32 send_due(struct packet *packet, struct connection *at, bool repeat, bool must_answer) {
  u32 sent = repeat ? 0 : at->next - at->unacknowledged;
  if (sent > at->stored) sent = at->stored; /* our end was sent too */
  u32 due = at->stored - sent, allowed = at->window > sent ? at->window - sent : 0;
  if (due > allowed) due = allowed;
  if (due > at->mss) due = at->mss;
  u32 sequence = at->unacknowledged + sent, after = sequence + due;
  bool ends = at->has_peer_ended && sent + due == at->stored;
  bool ends_first = ends && at->next == after;
  if (due == 0 && !must_answer && !ends_first) return 0;
  if ((i32)(after + ends - at->next) > 0) at->next = after + ends;
  at->told_window = room_of(at);
  u8 flags = ACK | (due > 0 ? PSH : 0) | (ends ? FIN : 0);
  struct reply reply = {.sequence = sequence,
                        .acknowledged = at->expected,
                        .length = due,
                        .window = (u16)at->told_window,
                        .flags = flags,
                        .data = at->buffer + sent};
  return send_reply(packet, reply);
}

static u32 answer_segment(struct packet *packet, struct connection *at, const struct segment *segment) {
  if (segment->flags & RST) {
    /* RFC 5961, 3.2: only the exact next number ends a connection. */
    if (segment->sequence == at->expected) at->is_used = false;
    return 0;
  }
  if (segment->flags & SYN) {
    if (at->is_opening && segment->sequence + 1 == at->expected) return accept(packet, at);
    return send_due(packet, at, false, true);
  }
  if (!(segment->flags & ACK)) return 0;
  bool has_unacknowledged = segment->acknowledged == at->unacknowledged && at->next != at->unacknowledged;
  if (at->is_opening && segment->acknowledged != at->next) return refuse(packet, segment);
  if (!drop_acknowledged(at, segment)) {
    at->is_used = false;
    return 0;
  }
  enum taken taken = take_data(at, segment);
  /* A peer that repeats itself, or has nothing new to say, has missed an answer. */
  bool repeat = has_unacknowledged && taken != NEWS;
  bool has_room_again = at->told_window < SEGMENT_BYTES && room_of(at) >= SEGMENT_BYTES;
  return send_due(packet, at, repeat, taken != NOTHING || repeat || has_room_again);
}

static u16 mss_of(const u8 *tcp, u32 header) {
  for (u32 at = HEADER; at + 1 < header && tcp[at] != 0; at += tcp[at] == 1 ? 1 : tcp[at + 1]) {
    if (tcp[at] == MSS_OPTION && at + MSS_BYTES <= header) return get16(tcp + at + 2);
    if (tcp[at] != 1 && tcp[at + 1] < 2) break;
  }
  return DEFAULT_MSS;
}

u32 answer_tcp(struct packet *packet) {
  u8 *tcp = packet->content;
  if (packet->length < HEADER) return 0;
  u32 header = (tcp[12] >> 4) * 4u;
  if (header < HEADER || header > packet->length) return 0;
  struct segment segment = {.sequence = get32(tcp + 4),
                            .acknowledged = get32(tcp + 8),
                            .window = get16(tcp + 14),
                            .length = packet->length - header,
                            .flags = tcp[13],
                            .data = tcp + header,
                            .mss = (tcp[13] & SYN) ? mss_of(tcp, header) : 0};
  swap_fields(tcp, 2);
  struct connection *at = find_connection(packet);
  if (at != NULL) return answer_segment(packet, at, &segment);
  bool opens = (segment.flags & (SYN | ACK | RST)) == SYN && get16(tcp) == PORT_ECHO;
  return opens ? open(packet, &segment) : refuse(packet, &segment);
}
