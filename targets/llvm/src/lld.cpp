// The door to lld's ELF driver, which has no C API of its own.
#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <cstring>
#include <string>

LLD_HAS_DRIVER(elf)

// Runs one link. `*log` receives what lld printed, to be freed by `free`.
// Returns lld's exit code; bit 16 is set when lld must not be run again in this process.
extern "C" int oaaxc_lld_elf(const char *const *args, size_t count, char **log) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  lld::Result result = lld::lldMain(llvm::ArrayRef<const char *>(args, count), stream, stream,
                                    {{lld::Gnu, &lld::elf::link}});
  stream.flush();
  *log = strdup(text.c_str());
  return (result.retCode & 0xffff) | (result.canRunAgain ? 0 : 0x10000);
}
