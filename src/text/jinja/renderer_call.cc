// Calls of the renderer: arguments, macros, the global functions.
#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/format.h"
#include "text/jinja/renderer.h"

namespace boreas::jinja {

namespace {

enum Function : int { kRange, kNamespaceFunction, kDictFunction, kRaise, kStrftimeNow };

std::string described(const Value& value) {
  return value.is_undefined() && !value.as_text().empty() ? "'" + std::string(value.as_text()) + "' is undefined"
                                                          : "a value of type " + type_name(value) + " cannot be called";
}

}  // namespace

int Renderer::function_id(std::string_view name) {
  static constexpr std::string_view kNames[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
  const auto* at = std::find(std::begin(kNames), std::end(kNames), name);
  return at == std::end(kNames) ? -1 : static_cast<int>(at - std::begin(kNames));
}

Arguments Renderer::evaluate_arguments(const Expression& node, size_t first) {
  Arguments arguments;
  for (size_t i = first; i < node.children.size(); ++i) arguments.positional.push_back(evaluate(*node.children[i]));
  for (const NamedArgument& named : node.named) arguments.named.emplace_back(named.name, evaluate(*named.value));
  return arguments;
}

Value Renderer::call(const Expression& node, const Value* caller) {
  const Expression& callee = *node.children[0];
  if (callee.kind == ExpressionKind::kAttribute) {  // a method, without making a value of it
    const Value receiver = evaluate(*callee.children[0]);
    const MethodEntry* method = find_method(receiver, callee.text);
    if (method != nullptr && method->run != nullptr && caller == nullptr) {
      const Arguments arguments = evaluate_arguments(node, 1);
      line_ = node.line;
      return method->run(budget_, receiver, arguments);
    }
    const Value value = get_attribute(budget_, receiver, callee.text);
    if (value.is_undefined()) fail(type_name(receiver) + " has no method '" + callee.text + "'");
    return call_value(value, evaluate_arguments(node, 1), caller);
  }
  const Value value = evaluate(callee);
  if (value.is_undefined()) fail(described(value));
  const Arguments arguments = evaluate_arguments(node, 1);
  line_ = node.line;
  return call_value(value, arguments, caller);
}

Value Renderer::call_value(const Value& callee, const Arguments& arguments, const Value* caller) {
  if (callee.is(Kind::kMacro)) return invoke(callee.macro(), arguments, caller);
  if (caller != nullptr) fail("'{% call %}' needs a macro");
  if (callee.is(Kind::kFunction)) return call_function(callee.function_id(), arguments);
  if (callee.is(Kind::kMethod)) return callee.method().entry->run(budget_, callee.method().receiver, arguments);
  fail(described(callee));
}

Value Renderer::make_macro(const Statement& node) {
  budget_.take(sizeof(Macro));
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) scope->captured = true;
  macros_.push_back({&node, scope_});
  return Value::of(&macros_.back());
}

Value Renderer::invoke(const Macro& macro, const Arguments& arguments, const Value* caller) {
  if (++macro_depth_ > depth_max_)
    fail("macros call each other more than " + std::to_string(depth_max_) + " levels deep");
  const Level level(*this);
  Scope* outer = scope_;
  Scope* inner = push_scope(macro.closure);
  scope_ = inner;
  bind(macro, arguments, caller);
  Value text = capture(macro.node->body);
  pop_scope(inner, outer);
  --macro_depth_;
  return text;
}

void Renderer::bind(const Macro& macro, const Arguments& arguments, const Value* caller) {
  const Statement& node = *macro.node;
  const std::string name = node.text.empty() ? "caller" : node.text;
  const size_t positional = arguments.positional.size();
  if (positional > node.parameters.size() && !node.takes_varargs)
    fail("macro '" + name + "' takes at most " + std::to_string(node.parameters.size()) + " arguments");
  std::vector<bool> used(arguments.named.size(), false);
  // All parameters are bound before any default is evaluated, so a default never sees a variable outside that has a
  // parameter's name.
  std::vector<const Parameter*> missing;
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    const Parameter& parameter = node.parameters[i];
    const Value* given = i < positional ? &arguments.positional[i] : nullptr;
    for (size_t k = 0; k < arguments.named.size() && given == nullptr; ++k) {
      if (arguments.named[k].first != parameter.spelling) continue;
      given = &arguments.named[k].second;
      used[k] = true;
    }
    if (given == nullptr && parameter.otherwise != nullptr) missing.push_back(&parameter);
    set(parameter.name, given != nullptr ? *given : Value::undefined(parameter.spelling));
  }
  Value kwargs;
  if (node.takes_kwargs) kwargs = Value::of(new Dict(budget_));
  for (size_t k = 0; k < arguments.named.size(); ++k) {
    if (used[k]) continue;
    if (arguments.named[k].first == "caller" && node.takes_caller && caller == nullptr) {
      caller = &arguments.named[k].second;
    } else if (node.takes_kwargs) {
      kwargs.dict().set(Value::borrowed(arguments.named[k].first), arguments.named[k].second);
    } else {
      fail("macro '" + name + "' has no parameter '" + std::string(arguments.named[k].first) + "'");
    }
  }
  if (caller != nullptr && !node.takes_caller)
    fail("macro '" + name + "' was called with a body, but does not use caller()");
  if (node.takes_kwargs) set(kwargs_name_, kwargs);
  if (node.takes_varargs) {
    std::vector<Value> rest;
    for (size_t i = node.parameters.size(); i < positional; ++i) rest.push_back(arguments.positional[i]);
    set(varargs_name_, make_list(budget_, std::move(rest), SequenceType::kTuple));
  }
  if (node.takes_caller && node.kind == StatementKind::kMacro)
    set(caller_name_, caller != nullptr ? *caller : Value::undefined("caller"));
  for (const Parameter* parameter : missing) set(parameter->name, evaluate(*parameter->otherwise));
}

Value Renderer::call_function(int id, const Arguments& arguments) {
  switch (id) {
    case kRange: {
      const Bound bound(arguments, "range", {"start", "stop", "step"}, 1);
      if (bound[1] == nullptr) return make_range(budget_, 0, bound.integer(0, 0), 1);
      return make_range(budget_, bound.integer(0, 0), bound.integer(1, 0), bound.integer(2, 1));
    }
    case kNamespaceFunction:
      return make_namespace(arguments);
    case kDictFunction:
      return make_dict(arguments);
    case kRaise: {
      const Bound bound(arguments, "raise_exception", {"message"}, 1);
      throw Fault{to_str(budget_, *bound[0]), line_, true};
    }
    case kStrftimeNow:
      return format_time(arguments);
    default:
      return Value();
  }
}

// dict(mapping or pairs, name=value ...)
Value Renderer::make_dict(const Arguments& arguments) {
  if (arguments.positional.size() > 1) fail("dict takes at most one positional argument");
  auto* dict = new Dict(budget_);
  Value value = Value::of(dict);
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::kDict)) {
      for (const Dict::Entry& entry : source.dict().entries) dict->set(entry.key, entry.value);
    } else {
      for (const Value& pair : iterate(budget_, source)) {
        const std::vector<Value> parts = iterate(budget_, pair);
        if (parts.size() != 2) fail("dict needs pairs of key and value");
        dict->set(parts[0], parts[1]);
      }
    }
  }
  // The names of named arguments belong to the template, so borrowing them is safe.
  for (const auto& named : arguments.named) dict->set(Value::borrowed(named.first), named.second);
  return value;
}

Value Renderer::make_namespace(const Arguments& arguments) {
  const Value source = make_dict(arguments);
  budget_.take(sizeof(Namespace));
  namespaces_.emplace_back();
  for (const Dict::Entry& entry : source.dict().entries) {
    if (!entry.key.is_text()) fail("the names of a namespace must be str");
    budget_.take(sizeof(Value) + entry.key.as_text().size());
    namespaces_.back().attributes.emplace_back(std::string(entry.key.as_text()), entry.value);
  }
  return Value::of(&namespaces_.back());
}

Value Renderer::format_time(const Arguments& arguments) {
  const Bound bound(arguments, "strftime_now", {"format"}, 1);
  const std::string format(bound.text(0));
  constexpr size_t kFormatBytesMax = 256, kTimeBytesMax = 4096;
  if (format.size() > kFormatBytesMax) fail("strftime_now: the format is too long");
  std::tm local{};
  localtime_r(&now_, &local);
  char buffer[kTimeBytesMax];
  // A trailing character tells an empty result from one that did not fit.
  const size_t bytes = std::strftime(buffer, sizeof buffer, (format + "|").c_str(), &local);
  if (bytes == 0) fail("strftime_now: the result is too long");
  return Value::text(budget_, std::string(buffer, bytes - 1));
}

}  // namespace boreas::jinja
