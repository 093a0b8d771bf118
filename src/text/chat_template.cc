#include "text/chat_template.h"

#include <fstream>
#include <sstream>

#include "text/jinja/parser.h"
#include "text/jinja/renderer.h"

namespace boreas {

namespace {

// tokenizer_config.json lists every added token: some checkpoints have 200 KB of it.
constexpr size_t kConfigBytesMax = 64 << 20;

struct FileText {
  bool exists = false;
  std::string text;
};

Result<FileText> read_file(const std::string& path, size_t bytes_max) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return FileText{};
  const std::streamoff bytes = file.tellg();
  if (bytes < 0) return Error{path + ": cannot be read", ""};
  if (static_cast<size_t>(bytes) > bytes_max)
    return Error{path + ": larger than " + std::to_string(bytes_max) + " bytes", ""};
  FileText result{true, std::string(static_cast<size_t>(bytes), '\0')};
  file.seekg(0);
  if (!file.read(result.text.data(), bytes)) return Error{path + ": cannot be read", ""};
  return result;
}

Result<boost::json::object> read_config(const std::string& path) {
  ASSIGN_OR_RETURN(const FileText file, read_file(path, kConfigBytesMax));
  if (!file.exists) return boost::json::object{};
  boost::system::error_code error;
  const boost::json::value json = boost::json::parse(file.text, error);
  if (error) return Error{path + ": not valid JSON: " + error.message(), ""};
  if (!json.is_object()) return Error{path + ": expected a JSON object", ""};
  return json.get_object();
}

// Every "*_token" member that is a string, or an added-token object with its text in "content".
boost::json::object special_tokens_of(const boost::json::object& config) {
  constexpr std::string_view kSuffix = "_token";
  boost::json::object tokens;
  for (const auto& entry : config) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (key.size() <= kSuffix.size() || key.substr(key.size() - kSuffix.size()) != kSuffix) continue;
    const boost::json::value* text = &entry.value();
    if (text->is_object()) text = text->get_object().if_contains("content");
    if (text != nullptr && text->is_string()) tokens[key] = *text;
  }
  return tokens;
}

// The chat_template member: one string, or a list of {"name", "template"} of which "default" counts.
const boost::json::string* find_template(const boost::json::object& config) {
  const boost::json::value* member = config.if_contains("chat_template");
  if (member == nullptr) return nullptr;
  if (member->is_string()) return &member->get_string();
  if (!member->is_array()) return nullptr;
  for (const boost::json::value& entry : member->get_array()) {
    if (!entry.is_object()) continue;
    const boost::json::value* name = entry.get_object().if_contains("name");
    const boost::json::value* text = entry.get_object().if_contains("template");
    if (name != nullptr && name->is_string() && name->get_string() == "default" && text != nullptr && text->is_string())
      return &text->get_string();
  }
  return nullptr;
}

std::string at_line(const jinja::Fault& fault, int line) {
  return "chat template, line " + std::to_string(fault.line > 0 ? fault.line : line) + ": " + fault.message;
}

bool mentions_part_type(const jinja::Body& body);

// A template that handles parts compares their "type" with 'text'.
bool mentions_part_type(const jinja::Expression* node) {
  if (node == nullptr) return false;
  if (node->kind == jinja::ExpressionKind::kConstant && node->constant.is_text() && node->constant.as_text() == "text")
    return true;
  if (node->kind == jinja::ExpressionKind::kAttribute && node->text == "text") return true;
  for (const auto& child : node->children) {
    if (mentions_part_type(child.get())) return true;
  }
  for (const auto& named : node->named) {
    if (mentions_part_type(named.value.get())) return true;
  }
  return false;
}

bool mentions_part_type(const jinja::Statement& node) {
  if (mentions_part_type(node.expression.get()) || mentions_part_type(node.condition.get())) return true;
  for (const auto& branch : node.branches) {
    if (mentions_part_type(branch.condition.get()) || mentions_part_type(branch.body)) return true;
  }
  for (const auto& value : node.values) {
    if (mentions_part_type(value.get())) return true;
  }
  return mentions_part_type(node.body) || mentions_part_type(node.otherwise);
}

bool mentions_part_type(const jinja::Body& body) {
  for (const auto& node : body) {
    if (mentions_part_type(*node)) return true;
  }
  return false;
}

}  // namespace

struct ChatTemplate::State {
  std::shared_ptr<const jinja::Program> program;
  TemplateLimits limits;
  boost::json::object special_tokens;
  bool reads_content_parts = false;
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.template_bytes) {
    return Error{"chat template: " + std::to_string(source.size()) + " bytes, at most " +
                     std::to_string(limits.template_bytes) + " are allowed",
                 ""};
  }
  auto state = std::make_shared<State>();
  state->limits = limits;
  try {
    state->program = jinja::parse(source, limits.depth);
  } catch (const jinja::Fault& fault) {
    return Error{at_line(fault, 1), ""};
  }
  state->reads_content_parts = mentions_part_type(state->program->body);
  return ChatTemplate(std::move(state));
}

Result<ChatTemplate> ChatTemplate::load(const std::string& directory) {
  const TemplateLimits limits;
  const std::string config_path = directory + "/tokenizer_config.json",
                    template_path = directory + "/chat_template.jinja";
  ASSIGN_OR_RETURN(const boost::json::object config, read_config(config_path));
  ASSIGN_OR_RETURN(const FileText file, read_file(template_path, limits.template_bytes));
  const boost::json::string* member = find_template(config);
  if (!file.exists && member == nullptr) {
    return Error{
        directory + ": no chat template: neither chat_template.jinja nor a chat_template in tokenizer_config.json", ""};
  }
  auto parsed =
      file.exists ? parse(file.text, limits) : parse(std::string_view(member->data(), member->size()), limits);
  if (!parsed.ok()) return Error{(file.exists ? template_path : config_path) + ": " + parsed.error().message, ""};
  auto state = std::make_shared<State>(*parsed->state_);
  state->special_tokens = special_tokens_of(config);
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(const boost::json::object& variables) const {
  return render_at(variables, std::time(nullptr));
}

Result<std::string> ChatTemplate::render_at(const boost::json::object& variables, std::time_t now) const {
  const jinja::RenderLimits limits{state_->limits.output_bytes, state_->limits.steps, state_->limits.depth};
  jinja::Renderer renderer(*state_->program, limits, variables, state_->special_tokens, now);
  try {
    return renderer.run();
  } catch (const jinja::Fault& fault) {
    return Error{fault.by_template ? fault.message : at_line(fault, renderer.line()), ""};
  }
}

bool ChatTemplate::reads_content_parts() const { return state_->reads_content_parts; }

}  // namespace boreas
