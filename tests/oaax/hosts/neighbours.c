/* Two runtimes of 2.0 and one of 1.x in one process, their calls interleaved.
 * usage: neighbours OURS-2 OURS-1 OTHER-2 OUR-MODEL OTHER-MODEL */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oaax_runtime.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

/* tensors_struct of 1.x; its header cannot stand beside that of 2.0, whose enumerators have the same names. */
typedef struct Arrays {
  size_t num_tensors;
  char **names;
  int *data_types;
  size_t *ranks;
  size_t **shapes;
  void **data;
} Arrays;

static void *find(void *library, const char *name) {
  void *address = dlsym(library, name);
  if (address == NULL) exit(3);
  return address;
}

static void *copy(const void *bytes, size_t size) { return memcpy(malloc(size), bytes, size); }

static Tensors *request(int id, float start) {
  int shape[2] = {1, 4};
  float x[4] = {start, start + 1, start + 2, start + 3};
  Tensors *tensors = calloc(1, sizeof *tensors);
  tensors->id = id;
  tensors->num_tensors = 1;
  tensors->tensors = calloc(1, sizeof *tensors->tensors);
  tensors->tensors->name = strdup("x");
  tensors->tensors->data_type = DATA_TYPE_FLOAT;
  tensors->tensors->rank = 2;
  tensors->tensors->shape = copy(shape, sizeof shape);
  tensors->tensors->data_size = sizeof x;
  tensors->tensors->data = copy(x, sizeof x);
  return tensors;
}

static Arrays *request1(float start) {
  size_t shape[2] = {1, 4}, rank = 2;
  int type = 1;
  float x[4] = {start, start + 1, start + 2, start + 3};
  char *name = strdup("x");
  void *sizes = copy(shape, sizeof shape), *data = copy(x, sizeof x);
  Arrays arrays;
  arrays.num_tensors = 1;
  arrays.names = copy(&name, sizeof name);
  arrays.data_types = copy(&type, sizeof type);
  arrays.ranks = copy(&rank, sizeof rank);
  arrays.shapes = copy(&sizes, sizeof sizes);
  arrays.data = copy(&data, sizeof data);
  return copy(&arrays, sizeof arrays);
}

static void release(Tensors *tensors) {
  free(tensors->tensors->name);
  free(tensors->tensors->shape);
  free(tensors->tensors->data);
  free(tensors->tensors);
  free(tensors);
}

static void release1(Arrays *arrays) {
  free(arrays->names[0]);
  free(arrays->shapes[0]);
  free(arrays->data[0]);
  free(arrays->names);
  free(arrays->data_types);
  free(arrays->ranks);
  free(arrays->shapes);
  free(arrays->data);
  free(arrays);
}

typedef struct Two {
  RuntimeStatus (*init)(Config);
  RuntimeStatus (*load)(int, const ModelConfig *);
  RuntimeStatus (*enqueue)(int, Tensors *);
  RuntimeStatus (*retrieve)(int *, Tensors **, int);
  RuntimeStatus (*cleanup)(void);
  const char *(*info)(void);
} Two;

static Two two(void *library) {
  Two it;
  *(void **)&it.init = find(library, "runtime_init");
  *(void **)&it.load = find(library, "runtime_load_models");
  *(void **)&it.enqueue = find(library, "runtime_enqueue_input");
  *(void **)&it.retrieve = find(library, "runtime_retrieve_output");
  *(void **)&it.cleanup = find(library, "runtime_cleanup");
  *(void **)&it.info = find(library, "runtime_get_info");
  return it;
}

int main(int argc, char **argv) {
  void *ours2, *ours1, *other2;
  Two a, b;
  int (*init1)(void), (*load1)(const char *), (*send1)(Arrays *), (*receive1)(Arrays **), (*end1)(void);
  Config none = {0, NULL, NULL};
  ModelConfig model;
  int i;
  if (argc != 6) return 2;
  ours2 = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  ours1 = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  other2 = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
  CHECK(ours2 && ours1 && other2);
  a = two(ours2);
  b = two(other2);
  *(void **)&init1 = find(ours1, "runtime_initialization");
  *(void **)&load1 = find(ours1, "runtime_model_loading");
  *(void **)&send1 = find(ours1, "send_input");
  *(void **)&receive1 = find(ours1, "receive_output");
  *(void **)&end1 = find(ours1, "runtime_destruction");
  memset(&model, 0, sizeof model);
  CHECK(a.init(none) == 0 && b.info() == NULL && b.init(none) == 0 && init1() == 0);
  model.file_path = argv[4];
  CHECK(a.load(1, &model) == 0 && load1(argv[4]) == 0);
  model.file_path = argv[5];
  CHECK(b.load(1, &model) == 0);
  for (i = 0; i < 200; i++) {
    int id;
    Tensors *of_a, *of_b;
    Arrays *of_1;
    CHECK(a.enqueue(0, request(i, 1)) == 0 && b.enqueue(0, request(i + 1000, 2)) == 0 && send1(request1(3)) == 0);
    CHECK(b.retrieve(&id, &of_b, 5000) == 0 && of_b->id == i + 1000 && ((float *)of_b->tensors->data)[0] == 4);
    CHECK(a.retrieve(&id, &of_a, 5000) == 0 && of_a->id == i && ((float *)of_a->tensors->data)[0] == 2);
    while (receive1(&of_1) != 0) continue;
    CHECK(((float *)of_1->data[0])[0] == 6);
    release(of_a);
    release(of_b);
    release1(of_1);
  }
  CHECK(b.cleanup() == 0 && a.info() != NULL && a.cleanup() == 0);
  CHECK(send1(request1(1)) == 0 && end1() == 0);
  CHECK(dlclose(ours2) == 0 && dlclose(other2) == 0 && dlclose(ours1) == 0);
  return 0;
}
