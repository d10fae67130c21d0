// Reads Parquet files with hyparquet, and writes the rows of each FILE to FILE.read, as the converter writes JSON lines:
// node hyparquet.mjs FILE...
import { writeFileSync } from 'node:fs'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'

const printed = value => value instanceof Uint8Array ? JSON.stringify(Buffer.from(value).toString('base64')) : String(value)

// JSON lines have the data last, and no trigger number or stamp where there is none.
const ordered = row => Object.entries(row).filter(([, value]) => value !== null && value !== undefined)
  .sort(([a], [b]) => (a === 'data') - (b === 'data'))

for (const path of process.argv.slice(2)) {
  const rows = await parquetReadObjects({ file: await asyncBufferFromFile(path), compressors, utf8: false })
    .catch(err => { throw new Error(`${path}: ${err.message}`, { cause: err }) })
  writeFileSync(path + '.read', rows.map(row =>
    '{' + ordered(row).map(([name, value]) => `"${name}":${printed(value)}`).join(',') + '}\n').join(''))
}
