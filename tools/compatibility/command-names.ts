import { commands } from '../../src/ctl/commands.ts'
import { GLOBAL_OPTIONS } from '../../src/ctl/command.ts'
import { commandHelps } from '../../src/daemon/help/overview.ts'
import type { Command, Operand, Option } from '../../src/ctl/command.ts'
import type { CommandHelp } from '../../src/daemon/help/command-help.ts'

/** Stands in a name for any value. Placeholders of the help are for people, and may change. */
export const ANY = 'VALUE'
const REPEATED = '…'

/** Returns each call of vmhostctl: words with operands, and each option. Each value of a closed list has a name. */
export const clientCommandNames = (): string[] => [
  ...GLOBAL_OPTIONS.flatMap((option) => namesOfOption('vmhostctl', option)),
  ...commands.flatMap(namesOfCommand),
]

function namesOfCommand({ words, operand, secondOperand, options }: Command): string[] {
  const call = ['vmhostctl', ...words].join(' ')
  const operands = [operand, secondOperand].filter((each) => each !== undefined)
  const calls = operands.reduce(
    (names, each) =>
      names.flatMap((name) => [
        ...(each.optional === true ? [name] : []),
        ...valuesOf(each).map((value) => `${name} ${value}`),
      ]),
    [call],
  )
  const isRepeated = operands.some(({ many }) => many === true)
  return [
    ...calls,
    ...(isRepeated ? calls.map((name) => name + REPEATED) : []),
    ...options.flatMap((option) => namesOfOption(call, option)),
  ]
}

function namesOfOption(call: string, option: Option): string[] {
  const name = `${call} --${option.name}`
  if (option.value === undefined) return [name]
  const names = valuesOf(option).map((value) => `${name} ${value}`)
  return option.many === true ? [...names, ...names.map((each) => each + REPEATED)] : names
}

/** Returns the values of a closed list, or what stands for any value. */
const valuesOf = ({ completes }: Operand | Option): readonly string[] =>
  typeof completes === 'object' ? completes : [ANY]

/** Returns each call of vmhostd that its help has: commands with operands, each option, and exit statuses. */
export const hostCommandNames = (): string[] => commandHelps.flatMap(namesOfHelp)

function namesOfHelp({ name, operand, options, moreOptions, exits }: CommandHelp): string[] {
  const call = `vmhostd ${name}`
  const canStandAlone = operand === undefined || operand.startsWith('[')
  return [
    ...(canStandAlone ? [call] : []),
    ...(operand === undefined ? [] : [`${call} ${ANY}`]),
    ...[...options, ...(moreOptions?.options ?? [])].map(
      ([term]) => `${call} ${term.replace(/ .+$/, ` ${ANY}`)}`,
    ),
    ...exits.map(([status]) => `${call} ends with ${status}`),
  ]
}
