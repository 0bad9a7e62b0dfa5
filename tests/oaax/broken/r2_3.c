/* Rule R2-3: the version has no third number. */
#define VERSION "2.0"
#include "sound2.h"
