/* Reads what a stand-in must know of PTX: the target, and each entry's parameters and .maxntid. */
#include "stand_in.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *spaces(const char *at) {
  while (isspace((unsigned char)*at)) at++;
  return at;
}

static bool has(const char *begin, const char *end, const char *word) {
  const char *found = strstr(begin, word);
  return found && found < end;
}

/* `.param .u64 .ptr .global .align 1 name`, parted by commas, up to the closing bracket. */
static const char *parameters(const char *at, kernel *k) {
  uint32_t offset = 0;
  while (*(at = spaces(at)) != ')') {
    const char *end = at + strcspn(at, ",)");
    if (!*end || strncmp(at, ".param", 6) != 0) violation("PTX: kernel %s has a malformed parameter", k->name);
    argument a = {has(at, end, ".ptr"), 0, 0};
    if (has(at, end, ".u64") || has(at, end, ".b64") || has(at, end, ".s64")) a.size = 8;
    if (has(at, end, ".u32") || has(at, end, ".b32") || has(at, end, ".s32")) a.size = 4;
    if (!a.size || has(at, end, "[")) violation("PTX: kernel %s has a parameter that is no word", k->name);
    offset = (offset + a.size - 1) / a.size * a.size;
    a.offset = offset;
    offset += a.size;
    if (k->count == MOST_ARGUMENTS) violation("PTX: kernel %s has too many parameters", k->name);
    k->arguments[k->count++] = a;
    at = *end == ',' ? end + 1 : end;
  }
  k->segment = offset;
  if (offset > 4096) violation("PTX: kernel %s has %u bytes of parameters", k->name, offset);
  return at + 1;
}

module *read_ptx(const char *text, unsigned capability, int *code) {
  const char *target = strstr(text, ".target sm_");
  *code = INVALID_IMAGE;
  if (!strstr(text, ".version ") || !target || !strstr(text, ".address_size 64")) return NULL;
  char *suffix;
  unsigned wanted = (unsigned)strtoul(target + 11, &suffix, 10);
  *code = NO_BINARY;
  if (wanted > capability || (*suffix == 'a' && wanted != capability)) return NULL;
  if (strstr(text, ".extern")) violation("PTX: something is declared and not defined");
  module *m = module_new();
  for (const char *at = text; (at = strstr(at, ".entry ")) != NULL;) {
    at = spaces(at + 7);
    size_t length = strcspn(at, "( \t\n");
    kernel *k = module_add(m, at, length);
    at = spaces(at + length);
    if (*at != '(') violation("PTX: kernel %s has no parameters", k->name);
    at = parameters(at + 1, k);
    const char *body = strchr(at, '{'), *most = strstr(at, ".maxntid");
    if (!body) violation("PTX: kernel %s has no body", k->name);
    if (most && most < body) {
      unsigned x = 1, y = 1, z = 1;
      if (sscanf(most, ".maxntid %u , %u , %u", &x, &y, &z) < 1) violation("PTX: kernel %s has a malformed .maxntid", k->name);
      k->most_threads = x * y * z;
    }
    at = body;
  }
  *code = OK;
  return m;
}
