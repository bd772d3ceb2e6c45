#include "console.h"
#include "acpi.h"
#include "agent.h"
#include "disk.h"
#include "entropy.h"
#include "serial.h"

enum { LINE_BYTES = 256, WAITING_WRITES = 8 };

static u64 life, count;
static char line[LINE_BYTES];
static u32 line_length;

/* A write that waits for a thaw. */
static struct {
  u64 sector;
  char text[LINE_BYTES];
} waiting[WAITING_WRITES];
static u32 waiting_count;

static void put_life(void) {
  put("life ");
  put_hex(life, 16);
}

void console_start(void) {
  entropy_fill(&life, sizeof life);
  /* Without a device for it, no two starts take equally long. */
  life ^= time_stamp() * 0x9e3779b97f4a7c15ull;
  put("bare guest ready ");
  put_life();
  put("\r\n");
}

/* Reads a number and moves past it. Returns false if there is none. */
static bool read_number(const char **at, u64 *value) {
  while (**at == ' ') (*at)++;
  if (**at < '0' || **at > '9') return false;
  for (*value = 0; **at >= '0' && **at <= '9'; (*at)++) *value = *value * 10 + (u64)(**at - '0');
  return true;
}

/* Returns the arguments if the line is this command. */
static const char *arguments_of(const char *name) {
  const char *at = line;
  for (; *name != 0; name++, at++)
    if (*at != *name) return NULL;
  return *at == 0 || *at == ' ' ? at : NULL;
}

static void put_sector(const char *verb, u64 sector) {
  put(verb);
  put_number(sector);
}

static void write_sector(u64 sector, const char *text) {
  memset(disk_data, 0, SECTOR_BYTES);
  for (u32 at = 0; text[at] != 0; at++) disk_data[at] = (u8)text[at];
  put_sector(disk_write(sector, 1) && disk_flush() ? "wrote " : "failed to write ", sector);
  put("\r\n");
}

static void write_text(u64 sector, const char *text) {
  if (*text == ' ') text++;
  if (!agent_is_frozen) return write_sector(sector, text);
  if (waiting_count == WAITING_WRITES) return put("too many writes wait\r\n");
  waiting[waiting_count].sector = sector;
  memcpy(waiting[waiting_count++].text, text, (size_t)(line + line_length - text) + 1);
  put_sector("waits for a thaw: write ", sector);
  put("\r\n");
}

static void write_waiting(void) {
  if (agent_is_frozen || waiting_count == 0) return;
  for (u32 at = 0; at < waiting_count; at++) write_sector(waiting[at].sector, waiting[at].text);
  waiting_count = 0;
}

static void read_sector(u64 sector) {
  if (!disk_read(sector, 1)) {
    put_sector("failed to read ", sector);
    return put("\r\n");
  }
  put_sector("sector ", sector);
  put(": ");
  for (u32 at = 0; at < SECTOR_BYTES && disk_data[at] >= ' ' && disk_data[at] < 0x7f; at++)
    put_char((char)disk_data[at]);
  put("\r\n");
}

static void hammer(u64 requests, u64 sectors) {
  if (sectors == 0 || sectors > DISK_SECTORS_MAX) sectors = 1;
  u64 done = 0, size = disk_sectors();
  while (done < requests && sectors <= size && disk_write(done * sectors % (size - sectors + 1), (u32)sectors)) done++;
  put_sector("hammered ", done);
  put("\r\n");
}

static void put_generation(void) {
  u64 at = acpi_generation_id();
  put("vmgenid ");
  if (at == 0) put("absent");
  else put_hex_bytes((const u8 *)at, 16);
  put("\r\n");
}

static void put_entropy(void) {
  u8 bytes[16];
  u32 length = entropy_fill(bytes, sizeof bytes);
  put("entropy ");
  if (length == 0) put("absent");
  else put_hex_bytes(bytes, length);
  put("\r\n");
}

static void run_line(void) {
  const char *at;
  u64 number = 0, second = 0;
  put("> ");
  put(line);
  put("\r\n");
  if (arguments_of("count")) {
    put_life();
    put_sector(" count ", ++count);
    put("\r\n");
  } else if (arguments_of("time")) {
    put_sector("time ", agent_time);
    put("\r\n");
  } else if (arguments_of("size")) {
    put_sector("size ", disk_sectors());
    put(" sectors\r\n");
  } else if ((at = arguments_of("read")) != NULL && read_number(&at, &number)) {
    read_sector(number);
  } else if ((at = arguments_of("write")) != NULL && read_number(&at, &number)) {
    write_text(number, at);
  } else if ((at = arguments_of("hammer")) != NULL && read_number(&at, &number)) {
    read_number(&at, &second);
    hammer(number, second);
  } else if (arguments_of("vmgenid")) {
    put_generation();
  } else if (arguments_of("entropy")) {
    put_entropy();
  } else if (arguments_of("reboot")) {
    reboot();
  } else if (arguments_of("halt")) {
    stop();
  }
}

void console_serve(void) {
  write_waiting();
  for (int typed; (typed = serial_read()) >= 0;) {
    if (typed == '\r' || typed == '\n') {
      line[line_length] = 0;
      if (line_length > 0) run_line();
      line_length = 0;
    } else if (line_length < LINE_BYTES - 1) {
      line[line_length++] = (char)typed;
    }
  }
}
