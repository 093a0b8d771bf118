// The checkpoint of a golden case: files beside golden.json, or, where model.safetensors is missing, weights rebuilt by
// the recipe that golden.json names (the same as tools/make_golden/cases.py):
//
//   value = s * 2^-e,  s = signed byte i mod 16 of Philox4x32-10(key, counter i / 16) with its lowest bit set,
//                      key = FNV-1a 64 of "golden/<case>/<published tensor name>", e by role
//   norm weights: (32 + b mod 25 - 12) / 32, b the unsigned byte
//
// All of these are exact in BF16. Called by golden_file.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model.h"

namespace boreas {

// `folder` holds config.json and perhaps model.safetensors; `manifest_json` is the text of its golden.json.
Result<std::shared_ptr<const Model>> load_golden_model(const std::string& folder, std::string_view manifest_json);

}  // namespace boreas
