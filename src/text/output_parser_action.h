// ActionParser reads the text between START_ACTION and END_ACTION and delivers the calls in it while it is being
// written. Private to OutputParser.
//
//   [
//       {"tool_call_id": "0", "tool_name": "ls", "parameters": {"path": "/"}},
//       {"tool_call_id": "1", ...
//   ]
//
// A call is delivered (ToolCallStart) when its name is complete and either its id is known, its parameters begin or it
// ends; from then on the text of `parameters` goes out exactly as the model writes it. Brackets of the array, commas
// and blanks between the parts are layout and mean little, so that broken arrays still give their calls:
//
// - Keys: tool_call_id or id (string or bare word), tool_name or name, parameters or arguments; in any order, other
//   keys are passed over; an object under the key `function` is read as if its members were the call's own. The first
//   of a repeated key counts. Parameters in front of the name are held until the name is known.
// - Parameters: an object (or array, or bare word) is delivered as written; a string is delivered as what it means
//   (some models write the JSON as a string); none, null or an empty string is delivered as `{}`.
// - A call ends with its `}`, or where that is missing with the array's `]`, the next call's `{` or the end of the
//   block.
// - Text outside of objects, and objects without a name, are passed over. If the model closed a block with such text or
//   objects in it but no call, the whole text of the block is handed back.
// - At a cut-off (token limit, abort) an unfinished call keeps what was delivered of it, also if that is nothing but
//   the name, and nothing is handed back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_scan.h"
#include "text/output_parser_stages.h"

namespace boreas {

class ActionParser {
 public:
  explicit ActionParser(bool parallel_calls) : parallel_calls_(parallel_calls) {}

  void begin_block();
  // Text is whole UTF-8 characters.
  void push(std::string_view text, TokenIndex origin, EventWriter& writer);
  // The block has ended: closed by the model, or cut off. Returns text that is to become content.
  std::string end_block(bool cut_off, EventWriter& writer);

  TokenIndex held_since() const;
  // One per call delivered: closed, and its arguments are a valid JSON object.
  const std::vector<bool>& complete() const { return complete_; }
  int complete_count() const { return complete_count_; }

 private:
  enum class At : uint8_t {
    kOutside,      // of any call
    kMembers,      // between the members of a call
    kKeyString,    // behind a key's quote
    kKeyWord,      // in a key without quotes
    kColon,        // behind a key
    kValue,        // behind the colon
    kShortString,  // in an id or a name
    kShortWord,    // the same without quotes
    kArguments,    // in parameters of any kind but string
    kArgumentsString,
    kSkipped,  // in a value nobody wants
  };
  enum class Key : uint8_t { kOther, kId, kName, kArguments, kFunction };
  enum class CallEnd : uint8_t { kClosed, kBlockClosed, kCutOff };

  // All per call; replaced as a whole.
  struct Call {
    std::string id;
    std::string name;
    bool has_id = false;
    bool has_name = false;
    bool has_arguments = false;      // the value was begun
    bool has_argument_text = false;  // some of it was delivered or is in early_arguments
    bool started = false;            // delivered; index is valid
    bool dropped = false;            // beyond the only call allowed
    bool text_behind = false;        // a string held more than one value
    bool in_function = false;        // inside the object under `function`
    int index = 0;
    std::string early_arguments;  // written in front of the name
    std::string null_prefix;      // "n", "nu", "nul", "null": not delivered until it is known to be more
    JsonValueScanner scanner;     // over the argument text, decoded if it was a string
    TokenIndex since = 0;         // token of its `{`
  };

  // Each takes text at its state and returns how many bytes it used; 0 only together with a change of state.
  size_t step(std::string_view text, TokenIndex origin, EventWriter& writer);
  size_t outside(std::string_view text, TokenIndex origin);
  size_t members(std::string_view text, EventWriter& writer);
  size_t key_text(std::string_view text);
  size_t colon(std::string_view text);
  size_t value(std::string_view text, EventWriter& writer);
  size_t short_text(std::string_view text, EventWriter& writer);
  size_t arguments(std::string_view text, TokenIndex origin, EventWriter& writer);
  size_t arguments_string(std::string_view text, TokenIndex origin, EventWriter& writer);
  size_t skipped(std::string_view text);

  void end_call(CallEnd end, EventWriter& writer);
  void key_done();
  void short_done(EventWriter& writer);
  void skip_value();
  void start_if_named(EventWriter& writer);
  void scalar_text(std::string_view text, TokenIndex origin, EventWriter& writer);
  void no_arguments(EventWriter& writer);
  void argument_text(std::string_view text, EventWriter& writer);
  bool arguments_valid() const;

  bool parallel_calls_;
  At at_ = At::kOutside;
  Key key_ = Key::kOther;
  std::string key_text_;
  JsonStringDecoder decoder_;      // of the string being read
  JsonValueScanner skip_scanner_;  // of the value being passed over
  Call call_;
  TokenIndex tail_since_ = 0;  // token of an unfinished escape in the arguments, or of null_prefix
  std::string block_text_;     // whole block, until its first call is delivered
  TokenIndex block_since_ = 0;
  bool block_has_call_ = false;
  bool block_has_more_ = false;  // text or objects that are not calls
  std::vector<bool> complete_;
  int complete_count_ = 0;
};

}  // namespace boreas
