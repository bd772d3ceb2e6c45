/** Tests that CONTRIBUTING.md names files and commands that exist. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { checkout } from './paths.ts'
import { testFilesOf } from './test.ts'

const read = (file: string): string => readFileSync(path.join(checkout, file), 'utf8')
/** Returns a document without line breaks inside commands, and with the name of a port for the placeholder. */
const page = read('CONTRIBUTING.md').replaceAll(/\n +/g, ' ').replaceAll('NAME.', 'storage.')

/** Returns the words of each command that stands in backticks. */
const commands = (start: string): string[][] =>
  [...page.matchAll(/`\.\/dev ([^`]+)`/g)]
    .map(([, words = '']) => words.split(' '))
    .filter(([first]) => start === '' || first === start)

test('every path of CONTRIBUTING.md exists', () => {
  const paths = [...page.matchAll(/`((?:src|test|docs|tools)\/[^`\s]*)`|\]\(([\w./-]+)\)/g)].map(
    ([, code, link]) => code ?? link ?? '',
  )
  assert.ok(paths.length > 20)
  for (const one of paths) assert.ok(globSync(one, { cwd: checkout }).length > 0, `there is no ${one}`)
})

test('every command of CONTRIBUTING.md exists', () => {
  const help = read('tools/dev.ts')
  for (const [name = ''] of commands('')) assert.match(help, new RegExp(`^ {2}${name}: \\{$`, 'm'), name)
})

test('every word after ./dev test finds tests, and only host/ finds tests of the lab', () => {
  const lines = commands('test').filter((line) => !line.includes('WORD…'))
  assert.ok(lines.length >= 5)
  for (const word of lines.flatMap((line) => line.slice(1)).map((one) => one.replace('NAME', 'storage'))) {
    const files = testFilesOf([word])
    assert.ok(files.length > 0, `no test file has ${word} in its path`)
    const inLab = files.filter((file) => /^test\/(host|two-hosts|browser-on-host|reboot)\//.test(file))
    if (!word.startsWith('host/')) assert.deepEqual(inLab, [], `${word} boots the lab`)
  }
})
