// Source -> Program. Everything this engine does not support is refused here, with line and construct, not when a
// conversation happens to reach it.
#pragma once

#include <memory>
#include <string_view>

#include "text/jinja/ast.h"

namespace boreas::jinja {

// Variables the renderer itself sets or looks for.
inline constexpr std::string_view kLoopName = "loop", kCallerName = "caller", kVarargsName = "varargs",
                                  kKwargsName = "kwargs";

// Raises Faults. `depth` bounds nesting, of statements and of expressions.
std::shared_ptr<const Program> parse(std::string_view source, int depth);

}  // namespace boreas::jinja
