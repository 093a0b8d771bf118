// One live request: its engine requests, its answer or stream, its end. ChatGeneration and CompletionGeneration say how
// output reads; everything about life and death is here. I/O thread only.
//
//   launch -> submitted to the engine, stream opened -> on_event ... -> complete (answer, or usage and [DONE])
//                                                                    -> fail     (error answer, or error event and
//                                                                    [DONE])
//                                                                    -> the client leaves: engine requests are
//                                                                    cancelled
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/openai/answers.h"
#include "server/serving.h"

namespace boreas {

struct GenerationPlan {
  const char* endpoint = "";  // for the log
  const char* object = "";    // of the answer ("chat.completion")
  const char* chunk_object = "";
  std::string id_wanted;  // of the answer, made unique
  GenerationFields fields;
  std::vector<Request> requests;  // one a prompt
  std::string prompt_field;       // "messages" or "prompt", for errors
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Serving& serving, std::shared_ptr<HttpResponder> responder, GenerationPlan plan);
  virtual ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  void launch();
  void on_event(int32_t prompt, TokenEvent&& event);

 protected:
  // The first chunks of a stream; nothing is generated yet.
  virtual void open_stream() = 0;
  // Output of one choice (prompt * n + choice), which is not done yet. Calls finish_choice at its end.
  virtual void take(int32_t index, TokenEvent& event) = 0;
  virtual void append_choices(JsonWriter& writer) = 0;    // of the whole answer
  virtual void append_extras(JsonWriter& writer) = 0;     // further members of the answer
  virtual int64_t reasoning_tokens() const { return 0; }  // of all choices

  const GenerationFields& fields() const { return plan_.fields; }
  const std::vector<Request>& requests() const { return plan_.requests; }  // prompts moved to the engine
  const ServingModel& model() const { return serving_.model(); }
  const ServerOptions& options() const { return serving_.options(); }
  int32_t choice_count() const { return static_cast<int32_t>(plan_.requests.size()) * plan_.fields.choices; }
  bool streams() const { return plan_.fields.stream; }

  // One chunk: begin, write one choice object, end.
  JsonWriter begin_chunk();
  void end_chunk(JsonWriter& writer) {
    writer.end_array();
    end_chunk_members(writer);
  }
  // The same after the caller has ended the array of choices and written further members.
  void end_chunk_members(JsonWriter& writer);

  // A token was taken into the output of some choice; for usage.
  void count_output_token() { ++usage_.output_tokens; }
  // The choice's output is complete. by_us: a stop string, so the engine does not know yet.
  void finish_choice(int32_t index, bool by_us);

 private:
  void measure(int32_t index, const TokenEvent& event);
  void process(int32_t prompt, TokenEvent& event);
  void drain_backlog();
  bool submit_all();
  void complete();
  void fail(const ApiError& error);
  void end(const char* outcome, int status);
  void cancel_all();
  ApiError reason_of_abort(const TokenEvent& event) const;
  Usage usage() const;

  Serving& serving_;
  std::shared_ptr<HttpResponder> responder_;
  GenerationPlan plan_;
  std::string id_;
  std::string chunk_head_;
  std::string chunk_;  // scratch
  int64_t created_ = 0;
  uint64_t key_ = 0;
  std::vector<RequestId> engine_ids_;   // one a prompt, as far as submitted
  std::vector<int32_t> cached_tokens_;  // by prompt, as last told
  std::vector<bool> done_;              // by choice
  int32_t done_count_ = 0;
  Usage usage_;
  std::deque<std::pair<int32_t, TokenEvent>> backlog_;  // while the client reads too slowly; bounded by max_tokens
  bool opened_ = false;                                 // the stream's status line is out
  bool ended_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point first_token_;
  std::vector<std::chrono::steady_clock::time_point> last_token_;  // by choice
};

}  // namespace boreas
