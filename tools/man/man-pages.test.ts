import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GLOBAL_OPTIONS } from '../../src/ctl/command.ts'
import { commands } from '../../src/ctl/commands.ts'
import { commandHelps } from '../../src/daemon/help/overview.ts'
import { manPages } from './man-pages.ts'
import { example, paragraph } from './roff.ts'

const pages = manPages({ version: '1.2.3', date: new Date('2026-11-23') })

/** Returns a page without fonts and escapes. */
const textOf = (name: string): string =>
  (pages.get(name) ?? '').replaceAll(/\\f[BIR]/g, '').replaceAll(String.raw`\-`, '-')

test('there is a page for each program, and one for each group of commands', () => {
  const groups = commands.flatMap(({ words: [first, second] }) =>
    second === undefined ? [] : [`vmhostctl-${first}.1`],
  )
  assert.deepEqual([...pages.keys()], ['vmhostd.8', 'vmhostctl.1', ...new Set(groups)])
})

test('vmhostctl(1) lists every command, and the page of its group has each of its options and examples', () => {
  for (const { words, options, examples } of commands) {
    const [first, second] = words
    assert.ok(textOf('vmhostctl.1').includes(`.TP\n${words.join(' ')}`), words.join(' '))
    const page = textOf(second === undefined ? 'vmhostctl.1' : `vmhostctl-${first}.1`)
    for (const { name } of [...options, ...GLOBAL_OPTIONS]) assert.ok(page.includes(`\n--${name}`), name)
    assert.equal(page.split(`\nvmhostctl ${words.join(' ')}`).length > examples.length, true)
  }
})

test('vmhostd(8) has every command with its options and exit statuses', () => {
  const page = textOf('vmhostd.8')
  for (const { name, options, moreOptions } of commandHelps) {
    assert.ok(page.includes(`.SS vmhostd ${name}\n`), name)
    for (const [term] of [...options, ...(moreOptions?.options ?? [])])
      assert.ok(page.includes(`\n${term}\n`), `${name} ${term}`)
  }
})

test('each page has the sections that readers look for, in their usual order', () => {
  for (const [name, text] of pages) {
    const sections = [...text.matchAll(/^\.SH (.*)$/gm)].map(([, heading]) => heading)
    const usual = [
      'NAME',
      'SYNOPSIS',
      'DESCRIPTION',
      'OPTIONS',
      'COMMANDS',
      'EXIT STATUS',
      'ENVIRONMENT',
      'FILES',
      'EXAMPLES',
    ]
    assert.deepEqual(
      sections,
      [...usual, 'SEE ALSO'].filter((heading) => sections.includes(heading)),
      name,
    )
    for (const heading of ['NAME', 'SYNOPSIS', 'DESCRIPTION', 'COMMANDS', 'EXIT STATUS', 'FILES', 'SEE ALSO'])
      assert.ok(sections.includes(heading), `${name}: ${heading}`)
  }
})

test('a point or a quote at the start of a line is text, and so is a backslash', () => {
  assert.equal(
    paragraph(String.raw`.profile isn't \x`),
    String.raw`.PP` + '\n' + String.raw`\&.profile isn\(aqt \ex`,
  )
  assert.match(example('Why:', ["'x'"]), /^\\\(aqx\\\(aq$/m)
})

test('a character that a man page cannot show is refused when it is made', () => {
  assert.throws(() => paragraph('a ⠋ spinner'), /cannot show "⠋" in: ⠋/)
})
