// Reads all trees of ROOT files with JSROOT, every branch of each, and writes the entries of each FILE to FILE.read, as
// the converter writes JSON lines: node root.mjs FILE... What it knows of a file stands in the file: the descriptions of
// classes, and the trees.
import { writeFileSync } from 'node:fs'
import { openFile } from 'jsroot/io'
import { treeProcess, TSelector } from 'jsroot/tree'

// JSROOT only warns of a class that it has no description of, and reads its objects as empty ones.
for (const kind of ['log', 'warn', 'error']) {
  console[kind] = (...said) => { throw new Error(`JSROOT says: ${said.join(' ')}`) }
}

const printed = value =>
  typeof value === 'object' ? JSON.stringify(Buffer.from(value).toString('base64')) : String(value)

// Trigger numbers and stamps are there or not: 2^64-1 stands for none. JSON lines have them before the data.
const words = ['trigger', 'stamp'], none = 2n ** 64n - 1n
const ordered = names => [
  ...names.filter(n => n !== 'data' && !words.includes(n)), ...words.filter(n => names.includes(n)), ...names.filter(n => n === 'data')]

const read = async path => {
  const file = await openFile(path)
  const lines = []
  for (const key of file.fKeys.filter(k => k.fClassName === 'TTree')) {
    const tree = await file.readObject(`${key.fName};${key.fCycle}`)
    const names = ordered(tree.fBranches.arr.map(b => b.fName))
    const selector = new TSelector()
    for (const name of names) selector.addBranch(name)
    let entries = 0
    selector.Process = function () {
      const there = names.filter(n => !words.includes(n) || BigInt(this.tgtobj[n]) !== none)
      lines.push('{' + there.map(n => `"${n}":${printed(this.tgtobj[n])}`).join(',') + '}\n')
      entries++
    }
    if (tree.fEntries > 0) await treeProcess(tree, selector) // JSROOT warns of branches without entries
    if (entries !== tree.fEntries) throw new Error(`${key.fName}: ${entries} of ${tree.fEntries} entries`)
  }
  writeFileSync(path + '.read', lines.join(''))
}

for (const path of process.argv.slice(2)) {
  await read(path).catch(err => { throw new Error(`${path}: ${err.message}`, { cause: err }) })
}
