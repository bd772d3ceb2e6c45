import { parseArgs } from 'node:util'
import { nearest } from '../lib/nearest.ts'
import { GLOBAL_OPTIONS } from './command.ts'
import { usageError } from './ctl-error.ts'
import { Arguments } from './arguments.ts'
import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Command, Option } from './command.ts'

/** Reads the arguments after the words of a command. Throws a usage error, which suggests what was meant if it can. */
export function parseArguments(command: Command, args: readonly string[]): Arguments {
  const options = [...command.options, ...GLOBAL_OPTIONS]
  const { values, positionals } = parse(command, options, args)
  const given = new Arguments(positionals, values)
  if (given.isSet('help')) return given
  checkOperands(command, positionals)
  for (const option of options) checkValues(option, given)
  return given
}

function checkValues({ name, value, many, completes, check }: Option, given: Arguments): void {
  if (value === undefined) return
  const texts = many === true ? given.texts(name) : [given.text(name)]
  for (const text of texts) {
    if (text === undefined) continue
    if (Array.isArray(completes) && !completes.includes(text)) {
      throw usageError(`--${name} ${text} is none of ${completes.join(', ')}`)
    }
    check?.(text, `--${name}`)
  }
}

const hint = (command: Command): string => `see vmhostctl ${command.words.join(' ')} --help`

function parse(command: Command, options: readonly Option[], args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: Object.fromEntries(options.map((option) => [option.name, describe(option)])),
      allowPositionals: true,
    })
  } catch (error) {
    const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
    if (!(error instanceof Error) || typeof code !== 'string' || !code.startsWith('ERR_PARSE_ARGS'))
      throw error
    throw explain(error, code, { command, options })
  }
}

function describe({ value, many = false, short }: Option): ParseArgsOptionDescriptor {
  return {
    type: value === undefined ? 'boolean' : 'string',
    multiple: many,
    ...(short === undefined ? {} : { short }),
  }
}

function explain(
  error: Error,
  code: string,
  { command, options }: { readonly command: Command; readonly options: readonly Option[] },
): Error {
  const [, word] = /^Unknown option '(--?[^']+)'/.exec(error.message) ?? []
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' && word !== undefined) {
    const meant = nearest(
      word.replace(/^-+/, ''),
      options.map(({ name }) => name),
    )
    const guess = meant === undefined ? [] : [`did you mean --${meant}?`]
    return usageError(`there is no option ${word}`, ...guess, hint(command))
  }
  // The first sentence is enough; the others are advice about quoting that does not fit every shell.
  const [sentence = error.message] = error.message.split(/\.\s|\n/, 1)
  return usageError(sentence.replace(/^Option '([^']+)'/, '$1'), hint(command))
}

function checkOperands(command: Command, operands: readonly string[]): void {
  const { operand } = command
  const [first, second] = operands
  if (operand === undefined) {
    if (first !== undefined) throw usageError(`unexpected argument ${first}`, hint(command))
    return
  }
  if (first === undefined || first === '')
    throw usageError(`it needs a ${operand.placeholder}`, hint(command))
  if (operand.many !== true && second !== undefined)
    throw usageError(`unexpected argument ${second}`, hint(command))
}
