#include "kernels/device.h"

static const struct spp_device *const rows[] = {&spp_device_cuda};

const struct spp_device *const *spp_devices_all(int *count) {
  *count = (int)(sizeof rows / sizeof rows[0]);
  return rows;
}

bool spp_device_usable(const struct spp_device *device, struct spp_diag *why) {
  if (device->absent) {
    spp_diag_set(why, SPP_ERR_ABSENT, device->name, NULL, "%s", device->absent);
    return false;
  }
  return device->count(why) > 0;
}
