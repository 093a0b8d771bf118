// Result<T>: a value or an Error, for everything that depends on outside data (files, HTTP, flags). No exceptions cross
// folders. An Error says what was found and what was expected, and names the field, file or tensor; the server maps
// `param` to the OpenAI error object.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace boreas {

struct Error {
  std::string message;     // one sentence a user can act on
  std::string param = {};  // dotted path of the offending input where there is one, as in "messages.3.content"
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit on purpose, `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit on purpose, `return Error{...};`

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace boreas

#define BOREAS_CONCAT_INNER(a, b) a##b
#define BOREAS_CONCAT(a, b) BOREAS_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, f()): x = value of f(), or return f()'s error from this function.
#define ASSIGN_OR_RETURN(target, expression)                                                   \
  auto BOREAS_CONCAT(result_, __LINE__) = (expression);                                        \
  if (!BOREAS_CONCAT(result_, __LINE__).ok()) return BOREAS_CONCAT(result_, __LINE__).error(); \
  target = std::move(BOREAS_CONCAT(result_, __LINE__)).value()

// RETURN_IF_ERROR(f()): return f()'s error from this function, if it has one.
#define RETURN_IF_ERROR(expression)            \
  do {                                         \
    auto status_ = (expression);               \
    if (!status_.ok()) return status_.error(); \
  } while (0)
