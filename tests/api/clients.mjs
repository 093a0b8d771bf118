// Real clients against a real server: openai and the AI SDK do chat, stream, tools and completions.
//   node clients.mjs PATH_TO_api_scripted_server
// Exit status 77 (skipped) if tests/npm/node_modules is not installed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const npm = join(dirname(fileURLToPath(import.meta.url)), "..", "npm");
if (!existsSync(join(npm, "node_modules", "openai"))) {
  console.log("skipped: run `npm ci` in tests/npm to test with real clients");
  process.exit(77);
}
const require = createRequire(join(npm, "package.json"));
const OpenAI = require("openai").default ?? require("openai");
const { z } = require("zod");
const { zodResponseFormat } = require("openai/helpers/zod");
const { generateObject, generateText, streamText, stepCountIs, tool, jsonSchema } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");

const sentence = "The sorted list is here.";
const thought = "The user wants a list.";
const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] };
const tools = [{ type: "function", function: { name: "read_file", description: "Reads a file.", parameters } }];
const messages = [{ role: "user", content: "Please sort the list." }];

async function startServer() {
  const server = spawn(process.argv[2], ["--step-us", "200"], { stdio: ["pipe", "pipe", "inherit"] });
  const port = await new Promise((resolve, reject) => {
    server.stdout.once("data", (data) => resolve(Number(data.toString())));
    server.once("exit", () => reject(new Error("the server has ended")));
  });
  return { server, baseURL: `http://127.0.0.1:${port}/v1` };
}

const tests = {
  async "openai: chat"(openai) {
    const answer = await openai.chat.completions.create({ model: "tiny", messages });
    assert.equal(answer.choices[0].message.content, sentence);
    assert.equal(answer.choices[0].message.reasoning_content, thought);
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.ok(answer.usage.completion_tokens > 0);
  },
  async "openai: chat stream"(openai) {
    const stream = await openai.chat.completions.create({
      model: "tiny", messages, stream: true, stream_options: { include_usage: true } });
    let content = "", reasoning = "", usage, finish;
    for await (const chunk of stream) {
      content += chunk.choices[0]?.delta.content ?? "";
      reasoning += chunk.choices[0]?.delta.reasoning_content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    assert.equal(content, sentence);
    assert.equal(reasoning, thought);
    assert.equal(finish, "stop");
    assert.ok(usage.total_tokens > usage.completion_tokens);
  },
  async "openai: tools, plain and streamed, and their results"(openai) {
    const first = await openai.chat.completions.create({ model: "tiny", messages, tools });
    const call = first.choices[0].message.tool_calls[0];
    assert.equal(first.choices[0].finish_reason, "tool_calls");
    assert.equal(call.function.name, "read_file");
    assert.deepEqual(JSON.parse(call.function.arguments), { path: "/tmp/list.txt" });
    const final = await openai.chat.completions
      .stream({ model: "tiny", messages, tools }).finalChatCompletion();
    assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), { path: "/tmp/list.txt" });
    const second = await openai.chat.completions.create({ model: "tiny", tools, messages: [
      ...messages, first.choices[0].message, { role: "tool", tool_call_id: call.id, content: "b a" }] });
    assert.equal(second.choices[0].message.content, sentence);
  },
  async "openai: a schema, plain and streamed, and a forced call"(openai) {
    const schema = z.object({ color: z.enum(["red", "green"]), count: z.number().int().min(1).max(99),
                              size: z.union([z.literal("s"), z.null()]) });
    const request = { model: "tiny", messages, seed: 5, response_format: zodResponseFormat(schema, "record") };
    const answer = await openai.chat.completions.parse(request);
    assert.ok(schema.safeParse(answer.choices[0].message.parsed).success);
    const streamed = await openai.chat.completions.stream(request).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].message.parsed, answer.choices[0].message.parsed);
    const forced = await openai.chat.completions.create({ model: "tiny", messages, tools,
      tool_choice: { type: "function", function: { name: "read_file" } } });
    assert.equal(forced.choices[0].message.tool_calls[0].function.name, "read_file");
    await assert.rejects(openai.chat.completions.create({ model: "tiny", messages, response_format:
      { type: "json_schema", json_schema: { name: "r", schema: { not: {} } } } }), (error) =>
      error instanceof OpenAI.BadRequestError && error.param === "response_format.json_schema.schema");
  },
  async "openai: completions, plain and streamed"(openai) {
    const answer = await openai.completions.create({ model: "tiny", prompt: "Please", max_tokens: 200 });
    assert.ok(answer.choices[0].text.includes(sentence));
    let text = "";
    const stream = await openai.completions.create({ model: "tiny", prompt: "Please", max_tokens: 200, stream: true });
    for await (const chunk of stream) text += chunk.choices[0]?.text ?? "";
    assert.equal(text, answer.choices[0].text);
  },
  async "openai: models and errors"(openai) {
    const ids = [];
    for await (const model of openai.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["tiny", "org/tiny"]);
    assert.equal((await openai.models.retrieve("tiny")).id, "tiny");
    await assert.rejects(openai.chat.completions.create({ model: "none", messages }), (error) =>
      error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
    await assert.rejects(openai.chat.completions.create({ model: "tiny", messages, temperature: 3 }), (error) =>
      error instanceof OpenAI.BadRequestError && error.param === "temperature");
  },
  async "openai: abort"(openai) {
    const stream = await openai.chat.completions.create({ model: "tiny", messages, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content !== undefined) break;
    stream.controller.abort();
  },
  async "ai sdk: generateText"(_, model) {
    const answer = await generateText({ model, prompt: "Please sort the list." });
    assert.equal(answer.text, sentence);
    assert.equal(answer.reasoningText, thought);
    assert.equal(answer.finishReason, "stop");
    assert.ok(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  },
  async "ai sdk: streamText"(_, model) {
    const stream = streamText({ model, prompt: "Please sort the list." });
    let text = "", reasoning = "";
    for await (const part of stream.fullStream) {
      assert.notEqual(part.type, "error", JSON.stringify(part));
      if (part.type === "text-delta") text += part.text;
      if (part.type === "reasoning-delta") reasoning += part.text;
    }
    assert.equal(text, sentence);
    assert.equal(reasoning, thought);
    assert.ok((await stream.usage).outputTokens > 0);
  },
  async "ai sdk: a tool loop, plain and streamed"(_, model) {
    for (const run of [generateText, streamText]) {
      const paths = [];
      const readFile = tool({ description: "Reads a file.", inputSchema: jsonSchema(parameters),
                              execute: async ({ path }) => { paths.push(path); return "b a"; } });
      const answer = await run({ model, prompt: "Please sort the list.", tools: { read_file: readFile },
                                 stopWhen: stepCountIs(3) });
      assert.equal(await answer.text, sentence);
      assert.deepEqual(paths, ["/tmp/list.txt"]);
      assert.equal((await answer.steps).length, 2);
    }
  },
  async "ai sdk: generateObject"(_, __, provider, strictProvider) {
    const schema = z.object({ tags: z.array(z.enum(["a", "b"])).max(2), ok: z.boolean() });
    for (const from of [provider, strictProvider]) {
      const answer = await generateObject({ model: from("tiny"), schema, prompt: "Tags." }).catch((error) => error);
      if (from === strictProvider) assert.ok(schema.safeParse(answer.object).success, String(answer));
    }
  },
  async "ai sdk: errors keep their message"(_, model) {
    await assert.rejects(generateText({ model, prompt: "x", temperature: 3, maxRetries: 0 }), (error) =>
      error.statusCode === 400 && error.message.includes("temperature"));
  },
  async "ai sdk: completion model"(_, __, provider) {
    const completionModel = provider.completionModel("tiny");
    const answer = await generateText({ model: completionModel, prompt: "Please", maxOutputTokens: 200 });
    assert.ok(answer.text.includes(sentence));
  },
};

const { server, baseURL } = await startServer();
let failed = 0;
try {
  const openai = new OpenAI({ baseURL, apiKey: "sk-none", maxRetries: 0 });
  const provider = createOpenAICompatible({ name: "boreas", baseURL, apiKey: "sk-none", includeUsage: true });
  const strictProvider = createOpenAICompatible({
    name: "boreas", baseURL, apiKey: "sk-none", supportsStructuredOutputs: true });
  for (const [name, run] of Object.entries(tests)) {
    try {
      await run(openai, provider("tiny"), provider, strictProvider);
      console.log(`ok ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}\n${error.stack}`);
    }
  }
} finally {
  server.stdin.end();
}
process.exit(failed ? 1 : 0);
