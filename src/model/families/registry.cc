// The table of families (family.h): one line each.
#include "model/families/family.h"

namespace boreas {
namespace {

constexpr Family kFamilies[] = {
    {"cohere2_moe", &parse_cohere2_moe_config, &read_cohere2_moe_tensor_name},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

}  // namespace boreas
