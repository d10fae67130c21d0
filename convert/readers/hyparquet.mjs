// Reads Parquet files with hyparquet, and writes the rows of each FILE to FILE.read, as the converter writes JSON lines:
// node hyparquet.mjs FILE...
import { writeFileSync } from 'node:fs'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const printed = value => value instanceof Uint8Array ? JSON.stringify(Buffer.from(value).toString('base64')) : String(value)

for (const path of process.argv.slice(2)) {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors, utf8: false })
    .catch(err => { throw new Error(`${path}: ${err.message}`, { cause: err }) })
  writeFileSync(path + '.read', rows.map(row =>
    '{' + Object.entries(row).map(([name, value]) => `"${name}":${printed(value)}`).join(',') + '}\n').join(''))
}
