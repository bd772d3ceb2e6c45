#include "agent.h"

u64 agent_time;
bool agent_is_frozen;

/* What a line asks for: the words in it, without a parser of JSON. */
struct question {
  const char *text;
  u32 length;
};

static const char *find(struct question question, const char *words) {
  u32 length = 0;
  while (words[length] != 0) length++;
  for (u32 at = 0; at + length <= question.length; at++)
    if (question.text[at] == *words && memcmp(question.text + at, words, length) == 0)
      return question.text + at + length;
  return NULL;
}

/* Returns the digits after a key, which an answer may have to repeat. */
static struct question number_after(struct question question, const char *key) {
  const char *at = find(question, key), *end = question.text + question.length;
  if (at == NULL) return (struct question){NULL, 0};
  while (at < end && (*at == ' ' || *at == ':')) at++;
  const char *first = at;
  while (at < end && ((*at >= '0' && *at <= '9') || *at == '-')) at++;
  return (struct question){first, (u32)(at - first)};
}

static u64 value_of(struct question digits) {
  u64 value = 0;
  for (u32 at = 0; at < digits.length; at++) value = value * 10 + (u64)(digits.text[at] - '0');
  return value;
}

static u32 append(char *to, u32 length, const char *text) {
  while (*text != 0) to[length++] = *text++;
  return length;
}

static const char FROZEN_ONE[] = "{\"return\": 1}\n";
static const char FROZEN_NONE[] = "{\"return\": 0}\n";

static const char *run(struct question question) {
  if (find(question, "\"guest-ping\"")) return "{\"return\": {}}\n";
  if (find(question, "\"guest-fsfreeze-status\""))
    return agent_is_frozen ? "{\"return\": \"frozen\"}\n" : "{\"return\": \"thawed\"}\n";
  /* Both report how many file systems they have changed; the guest counts as one. */
  if (find(question, "\"guest-fsfreeze-freeze\"")) {
    agent_is_frozen = true;
    return FROZEN_ONE;
  }
  if (find(question, "\"guest-fsfreeze-thaw\"")) {
    bool was_frozen = agent_is_frozen;
    agent_is_frozen = false;
    return was_frozen ? FROZEN_ONE : FROZEN_NONE;
  }
  /* An agent that ends its guest never answers. */
  if (find(question, "\"guest-shutdown\"")) reboot();
  if (find(question, "\"guest-set-time\"")) {
    struct question time = number_after(question, "\"time\"");
    if (time.length == 0) return "{\"error\": {\"class\": \"GenericError\", \"desc\": \"there is no other clock\"}}\n";
    agent_time = value_of(time);
    return "{\"return\": {}}\n";
  }
  return "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"this agent does not have the command\"}}\n";
}

u32 agent_answer(const char *line, u32 length, char *answer) {
  /* A byte that JSON cannot have makes the agent forget what came before. */
  for (u32 at = length; at > 0; at--)
    if ((u8)line[at - 1] == 0xff) {
      line += at;
      length -= at;
      break;
    }
  struct question question = {line, length};
  if (!find(question, "\"guest-sync-delimited\"")) return append(answer, 0, run(question));
  struct question id = number_after(question, "\"id\"");
  answer[0] = (char)0xff;
  u32 size = append(answer, 1, "{\"return\": ");
  memcpy(answer + size, id.text, id.length);
  return append(answer, size + id.length, "}\n");
}
