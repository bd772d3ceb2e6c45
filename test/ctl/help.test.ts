import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readCommandLine } from '../../src/ctl/command-line.ts'
import { commands } from '../../src/ctl/commands.ts'
import { exitStatus } from '../../src/ctl/exit-status.ts'
import { ctl } from './support/ctl-stage.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/vmhostctl.md'), 'utf8')

test('the overview, each group and each command have help that fits a terminal', async () => {
  const calls = [[], ['vm'], ['snapshot'], ...commands.map(({ words }) => words)]
  for (const words of calls) {
    const { status, out, err } = await ctl([...words, '--help'])
    assert.deepEqual({ words, status, err }, { words, status: 0, err: '' })
    assert.match(out, /Usage: vmhostctl /)
    const [text = ''] = out.split('\nExamples:', 1)
    for (const line of text.split('\n')) assert.ok(line.length <= 115, `${words.join(' ')}: ${line}`)
  }
})

/** Help would be written here. */
const NOWHERE = { write() {}, isTty: false, columns: 0 }

test('every example of the help is a valid command line', () => {
  for (const command of commands) {
    assert.ok(command.examples.length > 0, command.words.join(' '))
    for (const [line] of command.examples) {
      // Up to the operator at which the shell takes over.
      const [own = ''] = line.split(/ ?[|>]| </, 1)
      const typed = [...command.words, ...own.split(' ').filter(Boolean)]
      assert.equal(readCommandLine(typed, commands, NOWHERE)?.command, command)
    }
  }
})

test('the documentation has every command, every option and every exit status', () => {
  for (const { words, options } of commands) {
    assert.ok(page.includes(`vmhostctl ${words.join(' ')}`), words.join(' '))
    for (const { name } of options) assert.ok(page.includes(`--${name}`), `${words.join(' ')} --${name}`)
  }
  const rows = [...page.matchAll(/^\| (\d) \|/gm)].map(([, status]) => Number(status))
  assert.deepEqual(rows, Object.values(exitStatus))
})
