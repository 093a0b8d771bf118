// The oracle of the tokenizer tests: Hugging Face's own `tokenizers` library (npm). Called by oracle.cc as
//   node oracle.mjs TOKENIZER.json MODE INPUT OUTPUT
// INPUT and OUTPUT are files of records, each a little-endian uint32 count followed by that many items.
//   ids:     in UTF-8 bytes, out int32 token ids (no special tokens added)
//   pieces:  in UTF-8 bytes, out int32 byte length of each piece of the pre-tokenizer
//   decode:  in int32 token ids, out two records of UTF-8 bytes: with special tokens and without
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, '../../npm/package.json'));
const { Tokenizer } = require('tokenizers');

const [tokenizerPath, mode, inputPath, outputPath] = process.argv.slice(2);
const itemBytes = { ids: 1, pieces: 1, decode: 4 }[mode];
if (itemBytes === undefined) throw new Error(`unknown mode ${mode}`);
const kBatch = 4000;

function readRecords(path) {
  const file = readFileSync(path);
  const records = [];
  for (let at = 0; at < file.length;) {
    const end = at + 4 + file.readUInt32LE(at) * itemBytes;
    records.push(file.subarray(at + 4, end));
    at = end;
  }
  return records;
}

function int32Record(numbers) {
  const record = Buffer.alloc(4 + 4 * numbers.length);
  record.writeUInt32LE(numbers.length, 0);
  numbers.forEach((number, i) => record.writeInt32LE(number, 4 + 4 * i));
  return record;
}

function textRecord(text) {
  const bytes = Buffer.from(text, 'utf8');
  const head = Buffer.alloc(4);
  head.writeUInt32LE(bytes.length, 0);
  return Buffer.concat([head, bytes]);
}

function int32Items(record) {
  return Array.from({ length: record.length / 4 }, (_, i) => record.readInt32LE(4 * i));
}

const tokenizer = Tokenizer.fromFile(tokenizerPath);
const records = readRecords(inputPath);
const output = [];
if (mode === 'pieces') {
  const preTokenizer = tokenizer.getPreTokenizer();
  for (const record of records) {
    // In GPT-2's alphabet one character is one byte; all of them lie in the BMP.
    const pieces = preTokenizer.preTokenizeString(record.toString('utf8'));
    output.push(int32Record(pieces.map(([piece]) => piece.length)));
  }
} else {
  for (let begin = 0; begin < records.length; begin += kBatch) {
    const batch = records.slice(begin, begin + kBatch);
    if (mode === 'ids') {
      const texts = batch.map((record) => record.toString('utf8'));
      const encodings = await tokenizer.encodeBatch(texts, { addSpecialTokens: false });
      for (const encoding of encodings) output.push(int32Record(encoding.getIds()));
    } else {
      const rows = batch.map(int32Items);
      const complete = await tokenizer.decodeBatch(rows, false);
      const plain = await tokenizer.decodeBatch(rows, true);
      rows.forEach((_, i) => output.push(textRecord(complete[i]), textRecord(plain[i])));
    }
  }
}
writeFileSync(outputPath, Buffer.concat(output));
