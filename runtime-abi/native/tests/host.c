/* A C host of liboaaxc_rt, run by `native.rs`: host LIBRARY FOLDER. Exits 0 when all holds. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oaaxc_rt.h"

static const oaaxc_rt_api *api;

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

static void check_ok(oaaxc_status status, oaaxc_error *error) {
  if (status != OAAXC_OK) fprintf(stderr, "%s\n", api->error_message(error));
  CHECK(status == OAAXC_OK && error == NULL);
}

static oaaxc_model *open_model(const char *folder, const char *name) {
  char path[4096];
  oaaxc_error *error = NULL;
  oaaxc_model *model = NULL;
  oaaxc_open_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = 2;
  snprintf(path, sizeof path, "%s/%s.oaax", folder, name);
  check_ok(api->open(path, &options, &model, &error), error);
  return model;
}

static oaaxc_tensor tensor(uint32_t dtype, uint32_t rank, const int64_t *dims, const void *data, uint64_t bytes) {
  oaaxc_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.struct_size = sizeof tensor;
  tensor.dtype = dtype;
  tensor.rank = rank;
  tensor.dims = dims;
  tensor.data = data;
  tensor.bytes = bytes;
  return tensor;
}

static oaaxc_value value(const oaaxc_tensor *tensor) {
  oaaxc_value value;
  memset(&value, 0, sizeof value);
  value.struct_size = sizeof value;
  value.kind = OAAXC_TENSOR;
  value.count = 1;
  value.tensors = tensor;
  return value;
}

static oaaxc_output output(void) {
  oaaxc_output output;
  memset(&output, 0, sizeof output);
  output.struct_size = sizeof output;
  return output;
}

static void shows_what_a_model_takes(const char *folder) {
  oaaxc_model *model = open_model(folder, "scaled_sum");
  const oaaxc_port *x = api->input(model, 0);
  CHECK(api->input_count(model) == 2 && api->output_count(model) == 1);
  CHECK(strcmp(x->name, "x") == 0 && x->dtype == 1 && x->rank == 1 && x->kind == OAAXC_TENSOR);
  CHECK(x->dims[0].size == -1 && strcmp(x->dims[0].symbol, "N") == 0);
  CHECK(x->dims[0].min == 1 && x->dims[0].max == 1 << 24 && x->dims[0].multiple == 1);
  CHECK(api->input(model, 2) == NULL);
  CHECK(strcmp(api->output(model, 0)->name, "z") == 0);
  CHECK(strstr(api->model_info(model), "\"form\":\"archive\"") != NULL);
  CHECK(strstr(api->model_info(model), "\"copied\":[]") != NULL);
  api->model_release(model);
}

static void runs_into_its_own_and_the_runtimes_memory(const char *folder) {
  oaaxc_model *model = open_model(folder, "scaled_sum");
  oaaxc_session *session = NULL;
  oaaxc_error *error = NULL;
  float numbers[5] = {2, 4, 6, 8, 10}, mine[5] = {0};
  int64_t n;
  oaaxc_output theirs = output(), own = output();
  check_ok(api->session_create(model, &session, &error), error);
  api->model_release(model); /* the session keeps it */
  for (n = 5; n >= 1; n -= 2) {
    oaaxc_tensor t = tensor(1, 1, &n, numbers, (uint64_t)n * 4);
    oaaxc_value inputs[2];
    inputs[0] = inputs[1] = value(&t);
    check_ok(api->run(session, 2, inputs, 1, &theirs, &error), error);
    CHECK(theirs.kind == OAAXC_TENSOR && theirs.dtype == 1 && theirs.rank == 1 && theirs.dims[0] == n);
    CHECK(theirs.bytes == (uint64_t)n * 4 && ((const float *)theirs.data)[n - 1] == numbers[n - 1] * 1.5f);
    own.own_data = mine;
    own.capacity = sizeof mine;
    check_ok(api->run(session, 2, inputs, 1, &own, &error), error);
    CHECK(own.data == mine && mine[n - 1] == numbers[n - 1] * 1.5f);
    own.capacity = (uint64_t)n * 4 - 1;
    CHECK(api->run(session, 2, inputs, 1, &own, &error) == OAAXC_OUTPUT_TOO_SMALL);
    CHECK(own.bytes == (uint64_t)n * 4 && strstr(api->error_message(error), "\"z\" needs") != NULL);
    api->error_release(error);
    error = NULL;
  }
  api->output_release(&theirs);
  api->output_release(&theirs);
  api->output_release(&own);
  api->session_release(session);
}

static void says_what_was_wrong(const char *folder) {
  oaaxc_model *model = open_model(folder, "gather");
  oaaxc_session *session = NULL;
  oaaxc_error *error = NULL;
  float x[2] = {1, 2};
  int64_t two = 2, index[2] = {0, 9}, negative = -1;
  oaaxc_tensor tensors[2];
  oaaxc_value inputs[2];
  oaaxc_output outputs[2];
  CHECK(api->open("/no/such/file", NULL, &model, NULL) == OAAXC_NOT_FOUND && model == NULL);
  CHECK(api->open(NULL, NULL, &model, &error) == OAAXC_INVALID_ARGUMENT);
  api->error_release(error);
  CHECK(api->open_memory("garbage", 7, NULL, &model, &error) == OAAXC_INVALID_MODEL);
  CHECK(api->error_status(error) == OAAXC_INVALID_MODEL && api->error_node(error) == NULL);
  api->error_release(error);
  error = NULL;
  model = open_model(folder, "gather");
  check_ok(api->session_create(model, &session, &error), error);
  tensors[0] = tensor(1, 1, &two, x, 8);
  tensors[1] = tensor(7, 1, &two, index, 16);
  inputs[0] = value(&tensors[0]);
  inputs[1] = value(&tensors[1]);
  outputs[0] = outputs[1] = output();
  CHECK(api->run(session, 2, inputs, 2, outputs, &error) == OAAXC_RUN_FAILED);
  CHECK(strcmp(api->error_node(error), "Gather_0") == 0 || strcmp(api->error_node(error), "Gather_1") == 0);
  CHECK(strcmp(api->error_message(error), "index 9 lies outside -2 to 2 (exclusive)") == 0);
  api->error_release(error);
  CHECK(api->run(session, 1, inputs, 2, outputs, NULL) == OAAXC_INVALID_ARGUMENT);
  CHECK(api->run(session, 2, NULL, 2, outputs, NULL) == OAAXC_INVALID_ARGUMENT);
  tensors[1].dtype = 99;
  CHECK(api->run(session, 2, inputs, 2, outputs, NULL) == OAAXC_INVALID_ARGUMENT);
  tensors[1].dtype = 6;
  CHECK(api->run(session, 2, inputs, 2, outputs, NULL) == OAAXC_TYPE_MISMATCH);
  tensors[1].dtype = 7;
  tensors[1].dims = &negative;
  CHECK(api->run(session, 2, inputs, 2, outputs, NULL) == OAAXC_SHAPE_MISMATCH);
  inputs[1].struct_size = 4;
  CHECK(api->run(session, 2, inputs, 2, outputs, NULL) == OAAXC_INVALID_ARGUMENT);
  api->output_release(&outputs[0]);
  api->output_release(&outputs[1]);
  api->session_release(session);
  api->model_release(model);
  api->model_release(NULL);
  api->session_release(NULL);
  api->error_release(NULL);
}

static oaaxc_session *shared;

static void *many_runs(void *start) {
  int round;
  oaaxc_output z = output();
  for (round = 0; round < 100; round++) {
    float x[300];
    int64_t n = 100 + round;
    int i;
    oaaxc_tensor t = tensor(1, 1, &n, x, (uint64_t)n * 4);
    oaaxc_value inputs[2];
    for (i = 0; i < n; i++) x[i] = (float)(i + round) + *(const float *)start;
    inputs[0] = inputs[1] = value(&t);
    check_ok(api->run(shared, 2, inputs, 1, &z, NULL), NULL);
    for (i = 0; i < n; i++) CHECK(((const float *)z.data)[i] == x[i] * 1.5f);
  }
  api->output_release(&z);
  return NULL;
}

static void one_session_serves_many_threads(const char *folder) {
  oaaxc_model *model = open_model(folder, "scaled_sum");
  pthread_t threads[4];
  float starts[4] = {0, 1000, 2000, 3000};
  int i;
  check_ok(api->session_create(model, &shared, NULL), NULL);
  for (i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, many_runs, &starts[i]) == 0);
  for (i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  api->session_release(shared);
  api->model_release(model);
}

int main(int argc, char **argv) {
  void *library;
  oaaxc_rt_get_api_fn get_api;
  CHECK(argc == 3);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  *(void **)&get_api = dlsym(library, "oaaxc_rt_get_api");
  CHECK(get_api != NULL);
  CHECK(get_api(2, 9) == NULL && get_api(0, 0) == NULL && get_api(3, 1) == NULL);
  api = get_api(1, 7);
  CHECK(api != NULL && api->version == OAAXC_RT_VERSION && api->struct_size >= sizeof *api);
  CHECK(strchr(api->library_version(), '.') != NULL);
  shows_what_a_model_takes(argv[2]);
  runs_into_its_own_and_the_runtimes_memory(argv[2]);
  says_what_was_wrong(argv[2]);
  one_session_serves_many_threads(argv[2]);
  CHECK(dlclose(library) == 0);
  CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL); /* really unmapped */
  return 0;
}
