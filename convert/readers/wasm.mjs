// Reads Parquet files with parquet-wasm, the reader of Arrow in Rust, and writes the rows of each FILE to FILE.read as a
// stream of Arrow: node wasm.mjs FILE...
import { readFileSync, writeFileSync } from 'node:fs'
import { readParquet } from 'parquet-wasm'

for (const path of process.argv.slice(2)) {
  writeFileSync(path + '.read', readParquet(readFileSync(path)).intoIPCStream())
}
