#include "tests/cli/run.h"

#include "cli/machine.h"
#include "model/hw.h"

/* Model lines as the NVIDIA driver writes them (nvidia-smi -L names), and the file each means. */
static void the_drivers_names_find_their_files(void **state) {
  static const struct {
    const char *model, *name;
  } cases[] = {
      {"NVIDIA H100 80GB HBM3", "h100-80gb"},
      {"NVIDIA H100 PCIe", "h100-80gb-pcie"},
      {"NVIDIA H100 NVL", "h100-94gb-nvl"},
      {"NVIDIA H200", "h200-141gb"},
      {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
      {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
      {"NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"},
      {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
      {"NVIDIA A10", "a10-24gb"},
      {"NVIDIA L40S", "l40s-48gb"},
      {"Tesla V100-SXM2-16GB", "v100-16gb"},
      {"Tesla V100-SXM2-32GB", "v100-32gb"},
      {"Tesla T4", "t4-16gb"},
      {"NVIDIA GeForce RTX 4090", "rtx-4090"},
      {"NVIDIA GeForce RTX 3090", "rtx-3090"},
      {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
      {"NVIDIA RTX A6000", "rtx-a6000"},
      {"NVIDIA B200", "b200-180gb"},
      {"NVIDIA H20", "h20-96gb"},
      {"NVIDIA GeForce GTX 1080", NULL},
      {"", NULL},
  };
  struct spp_arena arena;
  const char *const *names;
  struct spp_diag diag = {0};
  int count;
  (void)state;
  spp_arena_init(&arena);
  expect_status(spp_gpu_list(SPP_SOURCE_DIR "/configs", &arena, &names, &count, &diag), SPP_OK, &diag);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("%s", cases[i].model);
    expect_str(spp_machine_match(cases[i].model, names, count), cases[i].name);
  }
  expect_note("%s", "");
  spp_arena_free(&arena);
}

static void the_information_file_of_the_driver_is_read(void **state) {
  char path[256], model[64];
  (void)state;
  snprintf(path, sizeof path, "%s/0000:18:00.0", run_folder);
  expect_true(spp_machine_gpu(run_folder, model, sizeof model) == NULL); /* a driver without GPUs */
  expect_i64(mkdir(path, 0700), 0);
  run_put("0000:18:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 45\n");
  expect_str(spp_machine_gpu(run_folder, model, sizeof model), "NVIDIA H200");
  run_put("0000:18:00.0/information", "IRQ: 45\nModel:");
  expect_true(spp_machine_gpu(run_folder, model, sizeof model) == NULL);
  run_remove("0000:18:00.0/information");
  rmdir(path);
  expect_true(spp_machine_gpu("/nonexistent", model, sizeof model) == NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_drivers_names_find_their_files),
      cmocka_unit_test(the_information_file_of_the_driver_is_read),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
