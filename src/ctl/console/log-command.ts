import { answered } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { printableLines } from '../../lib/text.ts'
import { usageError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import type { Command } from '../command.ts'

/** Parses a number of lines. Throws a usage error. */
function parseLines(text: string, what: string): number {
  const lines = Number(text)
  if (/^[0-9]{1,6}$/.test(text) && lines >= 1 && lines <= limits.consoleHistoryBytes) return lines
  throw usageError(`${what} ${text} is not a number of lines`, `write 1 to ${limits.consoleHistoryBytes}`)
}

export const logCommand: Command = {
  words: ['vm', 'log'],
  summary: 'show what the guest of a VM wrote on its console',
  description:
    `The newest ${limits.consoleHistoryBytes / 1024} KiB, of this session or of the last one, as text without colours and cursor movements. It ` +
    'wakes no VM. vmhostctl console --follow shows what comes next.',
  operand: { placeholder: 'NAME', completes: 'vm' },
  options: [{ name: 'lines', value: 'NUMBER', help: 'only the last ones', check: parseLines }],
  examples: [
    ['web-1 --lines 50', 'why it does not boot'],
    ['web-1 | grep -i panic', 'in all that is kept'],
  ],
  run: async ({ client, given, print }) => {
    const path = { id: given.operand }
    const text = given.text('lines')
    const query = text === undefined ? {} : { tail: parseLines(text, '--lines') }
    const { data } = await answered(client().GET('/v1/vms/{id}/console/log', { params: { path, query } }))
    const log = data.replace(/\n$/, '')
    print({ id: path.id, lines: log === '' ? [] : log.split('\n') }, () => printableLines(log))
    return exitStatus.done
  },
}
