/* Reads what a stand-in must know of an AMD code object: the metadata note (msgpack) and undefined symbols. */
#include "stand_in.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* A position in msgpack data. */
typedef struct {
  const uint8_t *at, *end;
} reader;

static uint64_t big(reader *r, int bytes) {
  uint64_t value = 0;
  if (r->end - r->at < bytes) violation("HSACO: the metadata are cut off");
  while (bytes--) value = value << 8 | *r->at++;
  return value;
}

typedef struct {
  enum { NUMBER, TEXT, LIST, MAP, OTHER } kind;
  uint64_t number; /* or count, or length */
  const char *text;
} item;

/* The head of the next value; elements of lists and maps follow it. */
static item next(reader *r) {
  uint8_t tag = (uint8_t)big(r, 1);
  item found = {OTHER, 0, NULL};
  if (tag < 0x80) return (item){NUMBER, tag, NULL};
  if (tag >= 0xe0) return (item){NUMBER, (uint64_t)(int64_t)(int8_t)tag, NULL};
  if (tag < 0x90) return (item){MAP, tag & 15, NULL};
  if (tag < 0xa0) return (item){LIST, tag & 15, NULL};
  if (tag < 0xc0) found = (item){TEXT, tag & 31, NULL};
  else if (tag >= 0xd9 && tag <= 0xdb) found = (item){TEXT, big(r, 1 << (tag - 0xd9)), NULL};
  else if (tag >= 0xcc && tag <= 0xcf) return (item){NUMBER, big(r, 1 << (tag - 0xcc)), NULL};
  else if (tag >= 0xd0 && tag <= 0xd3) return (item){NUMBER, big(r, 1 << (tag - 0xd0)), NULL};
  else if (tag == 0xdc || tag == 0xdd) return (item){LIST, big(r, tag == 0xdc ? 2 : 4), NULL};
  else if (tag == 0xde || tag == 0xdf) return (item){MAP, big(r, tag == 0xde ? 2 : 4), NULL};
  else if (tag == 0xc0 || tag == 0xc2 || tag == 0xc3) return found;
  else violation("HSACO: the metadata have a value of kind %#x", tag);
  if ((uint64_t)(r->end - r->at) < found.number) violation("HSACO: the metadata are cut off");
  found.text = (const char *)r->at;
  r->at += found.number;
  return found;
}

static void skip(reader *r) {
  item found = next(r);
  uint64_t count = found.kind == MAP ? 2 * found.number : found.kind == LIST ? found.number : 0;
  while (count--) skip(r);
}

static bool is(item key, const char *name) {
  return key.kind == TEXT && key.number == strlen(name) && memcmp(key.text, name, key.number) == 0;
}

static void read_argument(reader *r, kernel *k) {
  item map = next(r);
  argument a = {false, 0, 0};
  bool hidden = false;
  for (uint64_t i = 0; i < map.number; i++) {
    item key = next(r);
    if (is(key, ".offset")) a.offset = (uint32_t)next(r).number;
    else if (is(key, ".size")) a.size = (uint32_t)next(r).number;
    else if (is(key, ".value_kind")) {
      item kind = next(r);
      a.is_address = is(kind, "global_buffer");
      hidden = kind.number > 7 && memcmp(kind.text, "hidden_", 7) == 0;
      if (!a.is_address && !hidden && !is(kind, "by_value")) violation("kernel argument of kind %.*s", (int)kind.number, kind.text);
    } else skip(r);
  }
  if (hidden) return;
  if (k->count == MOST_ARGUMENTS || a.size > 8) violation("kernel %s: argument %u of %u bytes", k->name, k->count, a.size);
  if (k->count && a.offset < k->arguments[k->count - 1].offset + k->arguments[k->count - 1].size) violation("kernel %s: arguments overlap", k->name);
  k->arguments[k->count++] = a;
}

static void read_kernel(reader *r, module *m) {
  item map = next(r);
  kernel *k = module_add(m, "", 0);
  for (uint64_t i = 0; i < map.number; i++) {
    item key = next(r);
    if (is(key, ".name")) {
      item name = next(r);
      if (name.number >= sizeof k->name) violation("a kernel's name is too long");
      memcpy(k->name, name.text, name.number);
    } else if (is(key, ".kernarg_segment_size")) k->segment = (uint32_t)next(r).number;
    else if (is(key, ".max_flat_workgroup_size")) k->most_threads = (uint32_t)next(r).number;
    else if (is(key, ".args")) {
      item list = next(r);
      for (uint64_t j = 0; j < list.number; j++) read_argument(r, k);
    } else skip(r);
  }
  const argument *last = k->arguments + (k->count ? k->count - 1 : 0);
  if (k->count && last->offset + last->size > k->segment) violation("kernel %s: arguments leave the segment of %u bytes", k->name, k->segment);
}

static bool read_metadata(reader r, module *m, const char *architecture) {
  item map = next(&r);
  bool fits = false;
  for (uint64_t i = 0; i < map.number; i++) {
    item key = next(&r);
    if (is(key, "amdhsa.target")) {
      item target = next(&r);
      size_t length = strlen(architecture);
      const char *name = "amdgcn-amd-amdhsa--";
      fits = target.number >= strlen(name) + length && memcmp(target.text + strlen(name), architecture, length) == 0 &&
             (target.number == strlen(name) + length || target.text[strlen(name) + length] == ':');
    } else if (is(key, "amdhsa.kernels")) {
      item list = next(&r);
      for (uint64_t j = 0; j < list.number; j++) read_kernel(&r, m);
    } else skip(&r);
  }
  return fits;
}

module *read_hsaco(const uint8_t *bytes, const char *architecture, int *code) {
  const Elf64_Ehdr *elf = (const Elf64_Ehdr *)(const void *)bytes;
  if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_machine != 224) {
    *code = INVALID_IMAGE;
    return NULL;
  }
  module *m = module_new();
  bool fits = false;
  const Elf64_Phdr *headers = (const Elf64_Phdr *)(const void *)(bytes + elf->e_phoff);
  for (int i = 0; i < elf->e_phnum; i++) {
    if (headers[i].p_type != PT_NOTE) continue;
    const uint8_t *at = bytes + headers[i].p_offset, *end = at + headers[i].p_filesz;
    while (end - at >= (ptrdiff_t)sizeof(Elf64_Nhdr)) {
      const Elf64_Nhdr *head = (const Elf64_Nhdr *)(const void *)at;
      const uint8_t *data = at + sizeof *head + (head->n_namesz + 3u) / 4 * 4;
      if (head->n_type == 32 && memcmp(at + sizeof *head, "AMDGPU", 7) == 0)
        fits = read_metadata((reader){data, data + head->n_descsz}, m, architecture);
      at = data + (head->n_descsz + 3u) / 4 * 4;
    }
  }
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(bytes + elf->e_shoff);
  for (int i = 0; i < elf->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(bytes + sections[i].sh_offset);
    const char *names = (const char *)bytes + sections[sections[i].sh_link].sh_offset;
    for (uint64_t j = 1; j < sections[i].sh_size / sizeof *symbols; j++)
      if (symbols[j].st_shndx == SHN_UNDEF) violation("HSACO: symbol %s is undefined", names + symbols[j].st_name);
  }
  if (!fits) {
    module_unload(m);
    *code = NO_BINARY;
    return NULL;
  }
  *code = OK;
  return m;
}
