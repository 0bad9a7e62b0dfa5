/* Runs a model from C: shows what it takes, runs it at two sizes, and reads an error.
 * Usage: host MODEL. The expected output in this folder is for scaled_sum.oaax: z = x / 2 + y. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oaaxc_rt.h"

static const oaaxc_rt_api *api;

/* Ends the program with the runtime's own sentence. */
static void stop(oaaxc_error *error) {
  const char *node = api->error_node(error);
  fprintf(stderr, "%s%s%s\n", node ? node : "", node ? ": " : "", api->error_message(error));
  api->error_release(error);
  exit(1);
}

static void show_ports(const char *title, const oaaxc_model *model, uint32_t count,
                       const oaaxc_port *(*port_of)(const oaaxc_model *, uint32_t)) {
  uint32_t i;
  int32_t axis;
  for (i = 0; i < count; i++) {
    const oaaxc_port *port = port_of(model, i);
    printf("%s %s: type %u [", title, port->name, (unsigned)port->dtype);
    for (axis = 0; axis < port->rank; axis++) {
      const oaaxc_dim *dim = &port->dims[axis];
      if (dim->size >= 0) printf("%s%lld", axis ? ", " : "", (long long)dim->size);
      else printf("%s%s", axis ? ", " : "", dim->symbol[0] ? dim->symbol : "?");
    }
    printf("]\n");
  }
}

static oaaxc_tensor float_vector(const float *numbers, const int64_t *count) {
  oaaxc_tensor tensor = {0};
  tensor.struct_size = sizeof tensor;
  tensor.dtype = 1; /* ONNX's FLOAT */
  tensor.rank = 1;
  tensor.dims = count;
  tensor.data = numbers;
  tensor.bytes = (uint64_t)*count * sizeof(float);
  return tensor;
}

static oaaxc_value tensor_value(const oaaxc_tensor *tensor) {
  oaaxc_value value = {0};
  value.struct_size = sizeof value;
  value.kind = OAAXC_TENSOR;
  value.count = 1;
  value.tensors = tensor;
  return value;
}

int main(int argc, char **argv) {
  static const float x[5] = {2, 4, 6, 8, 10}, y[5] = {1, 1, 1, 1, 1};
  const int64_t sizes[2] = {3, 5};
  oaaxc_model *model = NULL;
  oaaxc_session *session = NULL;
  oaaxc_error *error = NULL;
  oaaxc_output z = {0};
  oaaxc_tensor tensors[2];
  oaaxc_value inputs[2];
  int round;

  if (argc != 2) {
    fprintf(stderr, "usage: host MODEL\n");
    return 2;
  }
  api = oaaxc_rt_get_api(1, OAAXC_RT_VERSION);
  if (api == NULL) {
    fprintf(stderr, "liboaaxc_rt does not have version %u of the interface\n", OAAXC_RT_VERSION);
    return 1;
  }
  if (api->open(argv[1], NULL, &model, &error) != OAAXC_OK) stop(error);
  show_ports("input", model, api->input_count(model), api->input);
  show_ports("output", model, api->output_count(model), api->output);

  if (api->session_create(model, &session, &error) != OAAXC_OK) stop(error);
  z.struct_size = sizeof z;
  for (round = 0; round < 2; round++) { /* one model, two sizes, one output used again */
    uint64_t i;
    tensors[0] = float_vector(x, &sizes[round]);
    tensors[1] = float_vector(y, &sizes[round]);
    inputs[0] = tensor_value(&tensors[0]);
    inputs[1] = tensor_value(&tensors[1]);
    if (api->run(session, 2, inputs, 1, &z, &error) != OAAXC_OK) stop(error);
    printf("z[%lld] =", (long long)z.dims[0]);
    for (i = 0; i < z.bytes / sizeof(float); i++) printf(" %g", (double)((const float *)z.data)[i]);
    printf("\n");
  }

  tensors[1] = float_vector(y, &sizes[0]); /* x has 5 elements, y has 3 */
  if (api->run(session, 2, inputs, 1, &z, &error) != OAAXC_OK) {
    printf("as it should be: %s\n", api->error_message(error));
    api->error_release(error);
  }
  api->output_release(&z);
  api->session_release(session);
  api->model_release(model);
  return 0;
}
