// One render of a Program: scopes, control flow, calls. Made for one call of ChatTemplate::render and used by one
// thread; raises Faults.
//
// Scoping is Jinja's: a `set` is seen in its own scope and those inside it. For bodies (each turn anew), macros, call,
// filter, set and with blocks have scopes of their own, if has none. A macro sees the variables around its definition,
// with the values they have when it is called.
#pragma once

#include <boost/json.hpp>
#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "text/jinja/ast.h"

namespace boreas::jinja {

struct RenderLimits {
  size_t output_bytes;
  uint64_t steps;
  int depth;
};

struct Scope {
  Scope* parent = nullptr;
  bool captured = false;  // a macro may still look here: keep it
  boost::container::small_vector<std::pair<NameId, Value>, 4> variables;
};

// A macro, or the body of a call block as the macro's caller().
struct Macro {
  const Statement* node;
  Scope* closure;
};

class Renderer {
 public:
  // `variables` wins over `fallbacks`; both outlive the renderer. `now`: what strftime_now() formats, in local time.
  Renderer(const Program& program, const RenderLimits& limits, const boost::json::object& variables,
           const boost::json::object& fallbacks, std::time_t now);
  std::string run();
  int line() const { return line_; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  // One level of the evaluator's own recursion, as long as it lives.
  class Level {
   public:
    explicit Level(Renderer& renderer);
    ~Level() { --renderer_.levels_; }

   private:
    Renderer& renderer_;
  };

  // Statements (renderer.cc).
  Flow execute(const Body& body);
  Flow execute(const Statement& node);
  Flow run_if(const Statement& node);
  Flow run_for(const Statement& node);
  std::vector<Value> loop_items(const Statement& node);
  Flow run_in_scope(const Body& body);
  void run_call(const Statement& node);
  void run_with(const Statement& node);
  Value capture(const Body& body);
  Value captured_through(const Statement& node);
  void emit(const Value& value);
  void emit(std::string_view text);

  // Variables.
  Scope* push_scope(Scope* parent);
  void pop_scope(Scope* scope, Scope* back_to);
  void assign(const Target& target, const Value& value);
  void set(NameId name, Value value);
  Value look_up(NameId name, std::string_view spelling);
  Value from_json(const boost::json::value& json, int depth);

  // Calls (renderer_call.cc).
  Arguments evaluate_arguments(const Expression& call, size_t first);
  Value call(const Expression& node, const Value* caller);
  Value call_value(const Value& callee, const Arguments& arguments, const Value* caller);
  Value invoke(const Macro& macro, const Arguments& arguments, const Value* caller);
  void bind(const Macro& macro, const Arguments& arguments, const Value* caller);
  Value make_macro(const Statement& node);
  Value call_function(int id, const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  Value make_dict(const Arguments& arguments);
  Value format_time(const Arguments& arguments);
  static int function_id(std::string_view name);  // -1 = there is none

  // Expressions (renderer_expression.cc).
  Value evaluate(const Expression& node);
  Value evaluate_list(const Expression& node);
  Value evaluate_dict(const Expression& node);
  Value evaluate_slice(const Expression& node);
  Value evaluate_compare(const Expression& node);
  Value evaluate_arithmetic(const Expression& node);
  Value evaluate_concat(const Expression& node);
  Value evaluate_chain(const Expression& node);

  const Program& program_;
  Budget budget_;  // before everything that holds values
  const int depth_max_;
  const boost::json::object& variables_;
  const boost::json::object& fallbacks_;
  const std::time_t now_;
  std::deque<Namespace> namespaces_;
  std::deque<Macro> macros_;
  std::vector<Value> globals_;  // by NameId, once looked up
  std::vector<bool> globals_known_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  Value body_;  // of the set or filter block whose filters run
  NameId loop_name_ = -1, caller_name_ = -1, varargs_name_ = -1, kwargs_name_ = -1;
  int levels_ = 0;
  int macro_depth_ = 0;
  int line_ = 1;
};

}  // namespace boreas::jinja
