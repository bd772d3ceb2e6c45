import { createApiClient } from '../../client/api-client.ts'
import { limits } from '../../config/limits.ts'
import { GLOBAL_OPTIONS } from '../command.ts'
import { exitStatus } from '../exit-status.ts'
import { loadProfile } from '../profile.ts'
import { showMib } from '../units.ts'
import type { ApiClient } from '../../client/api-client.ts'
import type { Command, Completes, Option } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Shell } from '../shell.ts'

/** Makes the shell's script offer files. */
const FILES = ':files'

type Candidate = { readonly word: string; readonly help?: string }

/**
 * Prints candidates for the last of `words`, one per line, with its help after a tab. Prints no errors: they would
 * disturb a user who is typing a command.
 */
export async function complete(
  words: readonly string[],
  commands: readonly Command[],
  shell: Shell,
): Promise<ExitStatus> {
  const typed = joinEquals(words)
  const current = typed.at(-1) ?? ''
  const before = typed.slice(0, -1)
  const candidates = await candidatesFor(before, current, { commands, shell })
  const value = wanted(current)
  // A shell that sees `--state=fa` as one word needs the whole word back.
  const prefix = words.at(-1) === current ? current.slice(0, current.length - value.length) : ''
  for (const { word, help } of candidates) {
    if (word !== FILES && !word.startsWith(value)) continue
    const whole = word === FILES ? word : prefix + word
    shell.stdout.write(help === undefined ? `${whole}\n` : `${whole}\t${help}\n`)
  }
  return exitStatus.done
}

/** Joins `--state=failed`, which bash passes as three words. */
function joinEquals(words: readonly string[]): string[] {
  const joined: string[] = []
  for (const [index, word] of words.entries()) {
    const previous = joined.at(-1) ?? ''
    const continues = words[index - 1] === '=' && previous.startsWith('--')
    if ((word === '=' && previous.startsWith('--')) || continues) joined[joined.length - 1] = previous + word
    else joined.push(word)
  }
  return joined
}

/** Returns the text to complete; of `--state=fa`, that is the part behind the sign. */
const wanted = (current: string): string =>
  current.startsWith('--') && current.includes('=') ? current.slice(current.indexOf('=') + 1) : current

async function candidatesFor(
  before: readonly string[],
  current: string,
  { commands, shell }: { readonly commands: readonly Command[]; readonly shell: Shell },
): Promise<readonly Candidate[]> {
  const command = commands.find(({ words }) => words.every((word, index) => before[index] === word))
  if (command === undefined) return commandWords(before, commands)
  const options = [...command.options, ...GLOBAL_OPTIONS]
  const args = before.slice(command.words.length)
  const valued = optionAwaitingValue(args.at(-1), current, options)
  if (valued !== undefined) return valuesOf(valued.completes, args, shell)
  if (current.startsWith('-')) return options.map(({ name, help }) => ({ word: `--${name}`, help }))
  const { operand } = command
  const operands = operandsIn(args, options)
  if (operand === undefined || (operand.many !== true && operands.length > 0)) return []
  const values = await valuesOf(operand.completes, args, shell)
  return values.filter(({ word }) => !operands.includes(word))
}

function commandWords(before: readonly string[], commands: readonly Command[]): Candidate[] {
  const depth = before.length
  const fitting = commands.filter(
    ({ words }) => words.length > depth && before.every((word, index) => words[index] === word),
  )
  const byWord = new Map(
    fitting.map(({ words, summary }) => {
      const word = words[depth] ?? ''
      return [word, words.length > depth + 1 ? { word } : { word, help: summary }]
    }),
  )
  return [...byWord.values()]
}

function optionAwaitingValue(
  last: string | undefined,
  current: string,
  options: readonly Option[],
): Option | undefined {
  const name = current.startsWith('--') && current.includes('=') ? current.split('=', 1)[0] : last
  return options.find((option) => option.value !== undefined && name === `--${option.name}`)
}

function operandsIn(args: readonly string[], options: readonly Option[]): string[] {
  const isValue = (index: number): boolean =>
    options.some((option) => option.value !== undefined && args[index - 1] === `--${option.name}`)
  return args.filter((word, index) => !word.startsWith('-') && !isValue(index))
}

async function valuesOf(
  completes: Completes | undefined,
  args: readonly string[],
  shell: Shell,
): Promise<readonly Candidate[]> {
  if (completes === undefined) return []
  if (completes === 'file') return [{ word: FILES }]
  if (completes === 'vm') return namesOf(args, shell, vmNames)
  if (completes === 'snapshot') return namesOf(args, shell, snapshotNames)
  if (completes === 'image') return namesOf(args, shell, imageNames)
  return completes.map((word) => ({ word }))
}

/** Returns a page of the existing names; empty if the daemon does not answer at once. */
async function namesOf(
  args: readonly string[],
  shell: Shell,
  read: (client: ApiClient, signal: AbortSignal) => Promise<readonly Candidate[]>,
): Promise<readonly Candidate[]> {
  const at = args.findIndex((word) => word === '--profile')
  try {
    const client = createApiClient(loadProfile(at === -1 ? undefined : args[at + 1], shell))
    try {
      return await read(client, AbortSignal.timeout(limits.ctlCompletionMs))
    } finally {
      client.close()
    }
  } catch {
    return []
  }
}

const PAGE = { query: { limit: limits.listItemsMax } }

async function vmNames(client: ApiClient, signal: AbortSignal): Promise<readonly Candidate[]> {
  const { data } = await client.GET('/v1/vms', { params: PAGE, signal })
  return (data?.items ?? []).map(({ id, observed }) => ({ word: id, help: observed.state }))
}

async function snapshotNames(client: ApiClient, signal: AbortSignal): Promise<readonly Candidate[]> {
  const { data } = await client.GET('/v1/snapshots', { params: PAGE, signal })
  return (data?.items ?? []).map(({ id, vm_id: vm, status }) => ({ word: id, help: `${status}, of ${vm}` }))
}

async function imageNames(client: ApiClient, signal: AbortSignal): Promise<readonly Candidate[]> {
  const { data } = await client.GET('/v1/images', { params: PAGE, signal })
  return (data?.items ?? []).map(({ sha256, size_mib: size }) => ({ word: sha256, help: showMib(size) }))
}
