#include "vsock.h"
#include "agent.h"
#include "virtio.h"

/* virtio 1.2, 5.10.6 "Device Operation". */
struct header {
  u64 from_context, to_context;
  u32 from_port, to_port, length;
  u16 type, operation;
  u32 flags, space, consumed;
} __attribute__((packed));

enum { REQUEST = 1, RESPONSE = 2, RESET = 3, SHUTDOWN = 4, DATA = 5, CREDIT_UPDATE = 6, CREDIT_REQUEST = 7 };
enum { RECEIVING = 0, SENDING = 1, EVENTS = 2, STREAM = 1 };
enum { CONNECTIONS = 4, SPACE = 4096, BUFFER_BYTES = sizeof(struct header) + SPACE };

struct connection {
  bool is_used;
  u32 peer_port, consumed, length;
  char line[AGENT_LINE_BYTES];
};

static struct virtio device;
static struct queue receiving, sending, events;
static bool is_there;
static u64 own_context;
static struct connection connections[CONNECTIONS];

/* Each buffer is in one ring at a time, like those of the network. */
static u8 buffers[QUEUE_SIZE][BUFFER_BYTES] __attribute__((aligned(16)));
static u32 event_buffer[2];

bool vsock_start(void) {
  if (!virtio_find(&device, VIRTIO_VSOCK, 0)) return false;
  virtio_use_queue(&device, &receiving, RECEIVING);
  virtio_use_queue(&device, &sending, SENDING);
  virtio_use_queue(&device, &events, EVENTS);
  own_context = virtio_read_config64(&device, 0);
  for (u16 slot = 0; slot < QUEUE_SIZE; slot++) {
    queue_set(&receiving, slot, buffers[slot], BUFFER_BYTES, true);
    queue_offer(&receiving, slot);
  }
  queue_set(&events, 0, event_buffer, sizeof event_buffer, true);
  queue_offer(&events, 0);
  virtio_go(&device);
  queue_notify(&receiving);
  queue_notify(&events);
  return is_there = true;
}

static struct connection *find_connection(u32 peer_port) {
  for (struct connection *at = connections; at < connections + CONNECTIONS; at++)
    if (at->is_used && at->peer_port == peer_port) return at;
  return NULL;
}

static struct connection *open(u32 peer_port) {
  struct connection *at = connections;
  while (at < connections + CONNECTIONS - 1 && at->is_used) at++;
  *at = (struct connection){.is_used = true, .peer_port = peer_port};
  return at;
}

/* Takes bytes of the stream; the answers to its lines replace them. Returns the length of the answers. */
static u32 converse(struct connection *connection, u8 *data, u32 length) {
  static char taken[SPACE];
  u32 answered = 0;
  memcpy(taken, data, length);
  for (u32 at = 0; at < length; at++) {
    if (taken[at] != '\n') {
      if (connection->length < AGENT_LINE_BYTES) connection->line[connection->length++] = taken[at];
      continue;
    }
    if (connection->length > 0 && answered + AGENT_LINE_BYTES <= SPACE)
      answered += agent_answer(connection->line, connection->length, (char *)data + answered);
    connection->length = 0;
  }
  return answered;
}

/* Turns a packet into its answer. Returns false if there is none. */
static bool answer(struct header *header) {
  struct connection *at = find_connection(header->from_port);
  u32 answered = 0;
  u16 operation = header->operation, reply = RESET;
  if (operation == RESET) {
    if (at != NULL) at->is_used = false;
    return false;
  }
  if (operation == REQUEST && header->to_port == AGENT_PORT && header->type == STREAM) {
    at = open(header->from_port);
    reply = RESPONSE;
  } else if (operation == SHUTDOWN) {
    if (at != NULL) at->is_used = false;
    at = NULL;
  } else if (at != NULL && operation == DATA) {
    at->consumed += header->length;
    answered = converse(at, (u8 *)(header + 1), header->length);
    reply = answered > 0 ? DATA : CREDIT_UPDATE;
  } else if (at != NULL && operation == CREDIT_REQUEST) {
    reply = CREDIT_UPDATE;
  } else if (at != NULL) {
    return false;
  }
  *header = (struct header){.from_context = own_context,
                            .to_context = header->from_context,
                            .from_port = header->to_port,
                            .to_port = header->from_port,
                            .length = answered,
                            .type = STREAM,
                            .operation = reply,
                            .space = SPACE,
                            .consumed = at == NULL ? 0 : at->consumed};
  return true;
}

/* virtio 1.2, 5.10.6.7: after a restore the device reports that all streams have ended. It is the only event. */
static void serve_events(void) {
  u16 slot;
  u32 length;
  bool has_events = false;
  while (queue_take(&events, &slot, &length)) {
    for (struct connection *at = connections; at < connections + CONNECTIONS; at++) at->is_used = false;
    own_context = virtio_read_config64(&device, 0);
    queue_offer(&events, slot);
    has_events = true;
  }
  if (has_events) queue_notify(&events);
}

bool vsock_serve(void) {
  if (!is_there) return false;
  u16 slot;
  u32 length;
  bool has_received = false, has_sent = false, had_packets = false;
  serve_events();
  while (queue_take(&sending, &slot, &length)) {
    queue_offer(&receiving, slot);
    has_received = true;
  }
  while (queue_take(&receiving, &slot, &length)) {
    had_packets = true;
    struct header *header = (struct header *)buffers[slot];
    if (length < sizeof *header || header->length > length - sizeof *header || !answer(header)) {
      queue_offer(&receiving, slot);
      has_received = true;
      continue;
    }
    queue_set(&sending, slot, header, sizeof *header + header->length, false);
    queue_offer(&sending, slot);
    has_sent = true;
  }
  if (has_sent) queue_notify(&sending);
  if (has_received) queue_notify(&receiving);
  return had_packets;
}
