#include "text/jinja/renderer.h"

#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/format.h"
#include "text/jinja/parser.h"
#include "text/unicode.h"

namespace boreas::jinja {

namespace {

// Live values may take this many times the output's limit: room for a long chat built up piece by piece.
constexpr size_t kLiveFactor = 8;
// And this much besides, for the variables.
constexpr size_t kLiveBase = 64 << 20;
// Nested evaluations, macros included: bounds the C++ stack (a level takes a few hundred bytes).
constexpr int kLevelsMax = 2000;

// Text of the variables. Everything behind this relies on valid UTF-8.
Value borrow(std::string_view text) {
  if (find_invalid_utf8(text) != std::string_view::npos) fail("the variables hold text that is not valid UTF-8");
  return Value::borrowed(text);
}

}  // namespace

Renderer::Level::Level(Renderer& renderer) : renderer_(renderer) {
  if (++renderer_.levels_ > kLevelsMax) fail("the template is nested too deep");
}

Renderer::Renderer(const Program& program, const RenderLimits& limits, const boost::json::object& variables,
                   const boost::json::object& fallbacks, std::time_t now)
    : program_(program),
      budget_(limits.steps, limits.output_bytes * kLiveFactor + kLiveBase, limits.output_bytes),
      depth_max_(limits.depth),
      variables_(variables),
      fallbacks_(fallbacks),
      now_(now),
      globals_(program.names.size()),
      globals_known_(program.names.size(), false) {
  for (size_t i = 0; i < program.names.size(); ++i) {
    const auto id = static_cast<NameId>(i);
    if (program.names[i] == kLoopName) loop_name_ = id;
    if (program.names[i] == kCallerName) caller_name_ = id;
    if (program.names[i] == kVarargsName) varargs_name_ = id;
    if (program.names[i] == kKwargsName) kwargs_name_ = id;
  }
}

std::string Renderer::run() {
  std::string output;
  out_ = &output;
  scope_ = push_scope(nullptr);
  execute(program_.body);
  return output;
}

Scope* Renderer::push_scope(Scope* parent) {
  budget_.step();
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    budget_.take(sizeof(Scope));
    scopes_.push_back(std::make_unique<Scope>());
    scope = scopes_.back().get();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Renderer::pop_scope(Scope* scope, Scope* back_to) {
  scope_ = back_to;
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Renderer::set(NameId name, Value value) {
  for (auto& variable : scope_->variables) {
    if (variable.first == name) {
      variable.second = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
}

Value Renderer::look_up(NameId name, std::string_view spelling) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& variable : scope->variables) {
      if (variable.first == name) return variable.second;
    }
  }
  const auto at = static_cast<size_t>(name);
  if (!globals_known_[at]) {
    globals_known_[at] = true;
    globals_[at] = Value::undefined(spelling);
    const boost::json::value* found = variables_.if_contains(spelling);
    if (found == nullptr) found = fallbacks_.if_contains(spelling);
    if (found != nullptr) {
      globals_[at] = from_json(*found, 0);
    } else if (const int function = function_id(spelling); function >= 0) {
      globals_[at] = Value::function(function);
    }
  }
  return globals_[at];
}

Value Renderer::from_json(const boost::json::value& json, int depth) {
  budget_.step();
  if (depth > kValueDepthMax)
    fail("the variables are nested more than " + std::to_string(kValueDepthMax) + " levels deep");
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::none();
    case boost::json::kind::bool_:
      return Value::boolean(json.get_bool());
    case boost::json::kind::int64:
      return Value::integer(json.get_int64());
    case boost::json::kind::uint64:
      return Value::integer(json.get_uint64());
    case boost::json::kind::double_:
      return Value::real(json.get_double());
    case boost::json::kind::string:
      return borrow({json.get_string().data(), json.get_string().size()});
    case boost::json::kind::array: {
      auto* list = new Sequence(budget_, SequenceType::kList);
      Value value = Value::of(list);
      list->items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array()) list->add(from_json(item, depth + 1));
      return value;
    }
    case boost::json::kind::object: {
      auto* dict = new Dict(budget_);
      Value value = Value::of(dict);
      for (const auto& entry : json.get_object()) {
        dict->set(borrow({entry.key().data(), entry.key().size()}), from_json(entry.value(), depth + 1));
      }
      return value;
    }
  }
  return Value::none();
}

void Renderer::assign(const Target& target, const Value& value) {
  budget_.step();
  if (!target.parts.empty()) {
    const std::vector<Value> items = iterate(budget_, value);
    if (items.size() != target.parts.size()) {
      fail("cannot unpack " + std::to_string(items.size()) + " values into " + std::to_string(target.parts.size()) +
           " variables");
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) return set(target.name, value);
  const Value space = look_up(target.name, target.spelling);
  if (!space.is(Kind::kNamespace))
    fail("cannot assign to '" + target.spelling + "." + target.attribute + "': '" + target.spelling +
         "' is not a namespace");
  for (auto& attribute : space.space().attributes) {
    if (attribute.first == target.attribute) {
      attribute.second = value;
      return;
    }
  }
  budget_.take(sizeof(Value) + target.attribute.size());
  space.space().attributes.emplace_back(target.attribute, value);
}

void Renderer::emit(std::string_view text) {
  budget_.step_bytes(text.size());
  budget_.take(text.size());
  out_->append(text);
  budget_.check_text(out_->size());
}

void Renderer::emit(const Value& value) {
  if (value.is_text()) return emit(value.as_text());
  const size_t before = out_->size();
  append_str(budget_, *out_, value);
  budget_.take(out_->size() - before);
  budget_.check_text(out_->size());
}

// The text that a body prints, as a value; its output was charged piece by piece and is given back here.
Value Renderer::capture(const Body& body) {
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  execute(body);
  out_ = outer;
  budget_.give(text.size());
  return Value::text(budget_, std::move(text));
}

Renderer::Flow Renderer::run_in_scope(const Body& body) {
  Scope* outer = scope_;
  Scope* inner = push_scope(outer);
  scope_ = inner;
  const Flow flow = execute(body);
  pop_scope(inner, outer);
  return flow;
}

// What a set or filter block prints, after its filters.
Value Renderer::captured_through(const Statement& node) {
  Scope* outer = scope_;
  Scope* inner = push_scope(outer);
  scope_ = inner;
  Value text = capture(node.body);
  pop_scope(inner, outer);
  if (node.expression == nullptr) return text;
  Value saved = std::exchange(body_, std::move(text));
  Value result = evaluate(*node.expression);
  body_ = std::move(saved);
  return result;
}

Renderer::Flow Renderer::run_if(const Statement& node) {
  for (const Branch& branch : node.branches) {
    if (branch.condition == nullptr || truth(evaluate(*branch.condition))) return execute(branch.body);
  }
  return Flow::kNext;
}

std::vector<Value> Renderer::loop_items(const Statement& node) {
  std::vector<Value> items = iterate(budget_, evaluate(*node.expression));
  if (node.condition == nullptr) return items;
  std::vector<Value> kept;
  Scope* outer = scope_;
  for (Value& item : items) {
    Scope* inner = push_scope(outer);
    scope_ = inner;
    assign(node.target, item);
    const bool keep = truth(evaluate(*node.condition));
    pop_scope(inner, outer);
    if (keep) kept.push_back(std::move(item));
  }
  return kept;
}

Renderer::Flow Renderer::run_for(const Statement& node) {
  auto* loop = new LoopState(budget_, loop_items(node));
  const Value owner = Value::of(loop);
  bool completed =
      false;  // a turn reached its end; Jinja prints the else part otherwise, also after break and continue
  Scope* outer = scope_;
  for (; loop->index0 < loop->items.size(); ++loop->index0) {
    Scope* inner = push_scope(outer);
    scope_ = inner;
    if (loop_name_ >= 0) set(loop_name_, owner);
    assign(node.target, loop->items[loop->index0]);
    const Flow flow = execute(node.body);
    pop_scope(inner, outer);
    completed = completed || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  loop->changed.clear();
  return completed ? Flow::kNext : run_in_scope(node.otherwise);
}

void Renderer::run_with(const Statement& node) {
  std::vector<Value> values;
  for (const ExpressionPtr& value : node.values) values.push_back(evaluate(*value));
  Scope* outer = scope_;
  Scope* inner = push_scope(outer);
  scope_ = inner;
  for (size_t i = 0; i < values.size(); ++i) assign(node.targets[i], values[i]);
  execute(node.body);
  pop_scope(inner, outer);
}

void Renderer::run_call(const Statement& node) {
  const Value caller = make_macro(node);
  emit(call(*node.expression, &caller));
}

Renderer::Flow Renderer::execute(const Body& body) {
  for (const auto& node : body) {
    const Flow flow = execute(*node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Renderer::Flow Renderer::execute(const Statement& node) {
  const Level level(*this);
  budget_.step();
  line_ = node.line;
  switch (node.kind) {
    case StatementKind::kText:
      emit(node.text);
      return Flow::kNext;
    case StatementKind::kPrint:
      emit(evaluate(*node.expression));
      return Flow::kNext;
    case StatementKind::kIf:
      return run_if(node);
    case StatementKind::kFor:
      return run_for(node);
    case StatementKind::kSet:
      assign(node.target, evaluate(*node.expression));
      return Flow::kNext;
    case StatementKind::kSetBlock:
      assign(node.target, captured_through(node));
      return Flow::kNext;
    case StatementKind::kMacro:
      set(node.name, make_macro(node));
      return Flow::kNext;
    case StatementKind::kCall:
      run_call(node);
      return Flow::kNext;
    case StatementKind::kFilterBlock: {
      const Value text = captured_through(node);
      if (!text.is_text()) fail("a filter block must give text, not " + type_name(text));
      emit(text);
      return Flow::kNext;
    }
    case StatementKind::kWith:
      run_with(node);
      return Flow::kNext;
    case StatementKind::kScope:
      return run_in_scope(node.body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

}  // namespace boreas::jinja
