// A C++ host in the form that OAAX 2.0 hosts have: load the library by name, init, load several models,
// send without throttling while another thread takes the outputs, clean up, and all of it once more.
// usage: upstream LIBRARY DOUBLE-MODEL PICK-MODEL
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "oaax_runtime.h"

namespace {

class Runtime {
 public:
  explicit Runtime(const char *path) : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(dlerror());
    find("runtime_init", init);
    find("runtime_load_models", load_models);
    find("runtime_enqueue_input", enqueue_input);
    find("runtime_retrieve_output", retrieve_output);
    find("runtime_cleanup", cleanup);
    find("runtime_get_error", get_error);
    find("runtime_get_version", get_version);
    find("runtime_get_name", get_name);
    find("runtime_get_info", get_info);
  }
  ~Runtime() { dlclose(library_); }
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  void must(RuntimeStatus status, const char *what) const {
    if (status == RUNTIME_STATUS_SUCCESS) return;
    const char *error = get_error();
    throw std::runtime_error(std::string(what) + " gives " + std::to_string(status) + ": " + (error ? error : "no text"));
  }

  decltype(&runtime_init) init;
  decltype(&runtime_load_models) load_models;
  decltype(&runtime_enqueue_input) enqueue_input;
  decltype(&runtime_retrieve_output) retrieve_output;
  decltype(&runtime_cleanup) cleanup;
  decltype(&runtime_get_error) get_error;
  decltype(&runtime_get_version) get_version;
  decltype(&runtime_get_name) get_name;
  decltype(&runtime_get_info) get_info;

 private:
  template <typename Function>
  void find(const char *name, Function &to) {
    to = reinterpret_cast<Function>(dlsym(library_, name));
    if (!to) throw std::runtime_error(std::string("missing: ") + name);
  }
  void *library_;
};

template <typename T>
TensorDescriptor tensor(const char *name, TensorElementType type, std::vector<int> shape, const std::vector<T> &data) {
  TensorDescriptor made;
  made.name = strdup(name);
  made.data_type = type;
  made.rank = static_cast<int>(shape.size());
  made.shape = static_cast<int *>(malloc(shape.size() * sizeof(int)));
  memcpy(made.shape, shape.data(), shape.size() * sizeof(int));
  made.data_size = data.size() * sizeof(T);
  made.data = malloc(made.data_size);
  memcpy(made.data, data.data(), made.data_size);
  return made;
}

Tensors *request(int id, const std::vector<TensorDescriptor> &tensors) {
  auto *made = static_cast<Tensors *>(malloc(sizeof(Tensors)));
  made->id = id;
  made->num_tensors = static_cast<int>(tensors.size());
  made->tensors = static_cast<TensorDescriptor *>(malloc(tensors.size() * sizeof(TensorDescriptor)));
  memcpy(made->tensors, tensors.data(), tensors.size() * sizeof(TensorDescriptor));
  return made;
}

void release(Tensors *tensors) {
  for (int i = 0; i < tensors->num_tensors; i++) {
    free(tensors->tensors[i].name);
    free(tensors->tensors[i].shape);
    free(tensors->tensors[i].data);
  }
  free(tensors->tensors);
  free(tensors);
}

void session(Runtime &runtime, const char *const *paths) {
  const char *keys[] = {"log_level", "num_threads", "a_vendors_own_key"}, *values[] = {"2", "2", "anything"};
  runtime.must(runtime.init(Config{3, keys, values}), "init");
  ModelConfig models[2] = {};
  models[0].file_path = paths[0];
  models[1].file_path = paths[1];
  runtime.must(runtime.load_models(2, models), "load");
  std::map<int, float> seen;
  std::string fault;
  std::thread consumer([&] {
    for (int taken = 0; taken < 40; taken++) {
      int model = -1;
      Tensors *output = nullptr;
      RuntimeStatus status = runtime.retrieve_output(&model, &output, -1);
      if (status != RUNTIME_STATUS_SUCCESS || model != output->id % 2) {
        fault = "retrieve gives " + std::to_string(status) + " of model " + std::to_string(model);
        return;
      }
      seen[output->id] = static_cast<float *>(output->tensors[0].data)[1];
      release(output);
    }
  });
  for (int id = 0; id < 40; id++) {
    float x = static_cast<float>(id);
    auto first = tensor<float>("x", DATA_TYPE_FLOAT, id % 2 ? std::vector<int>{3} : std::vector<int>{1, 4},
                               id % 2 ? std::vector<float>{x, x + 1, x + 2} : std::vector<float>{x, x + 1, x + 2, x + 3});
    std::vector<TensorDescriptor> all{first};
    if (id % 2) all.push_back(tensor<long long>("index", DATA_TYPE_INT64, {2}, {0, 2}));
    runtime.must(runtime.enqueue_input(id % 2, request(id, all)), "enqueue");
  }
  consumer.join();
  if (!fault.empty()) throw std::runtime_error(fault);
  for (int id = 0; id < 40; id++) {
    float wanted = static_cast<float>(id % 2 ? id + 2 : 2 * (id + 1));
    if (seen.count(id) != 1 || seen[id] != wanted) throw std::runtime_error("request " + std::to_string(id) + " is wrong");
  }
  if (!strstr(runtime.get_info(), "\"loaded_models\":2")) throw std::runtime_error(runtime.get_info());
  runtime.must(runtime.cleanup(), "cleanup");
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  try {
    Runtime runtime(argv[1]);
    printf("%s %s\n", runtime.get_name(), runtime.get_version());
    session(runtime, argv + 2);
    session(runtime, argv + 2);
  } catch (const std::exception &error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
