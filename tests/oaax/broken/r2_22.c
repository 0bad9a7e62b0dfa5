/* Rule R2-22: the information has blanks after its colons. */
#define INFO "{\"loaded_models\": %d, \"requests_in_flight\": %d, \"backend_version\": \"1\"}"
#include "sound2.h"
