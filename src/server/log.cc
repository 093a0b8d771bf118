#include "server/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "server/server.h"

namespace boreas {

namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("boreas", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

// Control characters would forge lines.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace

bool set_log_level(std::string_view name) {
  const std::string text(name == "warning" ? "warn" : name);
  const auto level = spdlog::level::from_str(text);
  if (level == spdlog::level::off && text != "off") return false;
  logger().set_level(level);
  return true;
}

void log_request(const RequestRecord& record) {
  logger().info("{} {} {} {} prompt={} cached={} output={} reasoning={} first_token_ms={} total_ms={}", record.id,
                record.endpoint, record.status, record.outcome, record.usage.prompt_tokens, record.usage.cached_tokens,
                record.usage.output_tokens, record.usage.reasoning_tokens, record.first_token_ms, record.total_ms);
}

void log_refusal(const std::string& id, const std::string& path, int status, const std::string& code,
                 const std::string& param) {
  logger().info("{} {} {} refused code={} param={}", id, printable(path), status, code, printable(param));
}

void log_generation_error(const std::string& id, const std::string& message) {
  logger().error("{} generation failed: {}", id, printable(message));
}

void log_info(const std::string& message) { logger().info("{}", printable(message)); }
void log_error(const std::string& message) { logger().error("{}", printable(message)); }

}  // namespace boreas
