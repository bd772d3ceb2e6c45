import { SetupError } from './setup-error.ts'

/** A key of the configuration with its value: `controller.common_name`, or `state_directory` at the top. */
export type ConfigSetting = readonly [key: string, value: string]

/**
 * Renders the example configuration with some keys set. It replaces the commented line of each key, so that the
 * operator finds the value beside its explanation.
 */
export function renderConfig(example: string, settings: readonly ConfigSetting[]): string {
  const wanted = new Map(settings)
  let table = ''
  const lines = example.split('\n').map((line) => {
    table = /^\[(\w+)\]$/.exec(line)?.[1] ?? table
    const name = /^#(?: {3}Example: )?(\w+) = /.exec(line)?.[1]
    const key = table === '' ? name : `${table}.${name}`
    const value = key === undefined ? undefined : wanted.get(key)
    if (key === undefined || value === undefined) return line
    wanted.delete(key)
    return `${name} = ${tomlString(value)}`
  })
  const [left] = wanted.keys()
  if (left !== undefined) throw new SetupError(`the example configuration has no key ${left}`)
  return lines.join('\n')
}

/**
 * Writes a TOML basic string. JSON strings are valid ones, except for DEL, which JSON leaves unescaped (toml.io,
 * "String").
 */
const tomlString = (value: string): string => JSON.stringify(value).replaceAll('\u007f', '\\u007f')
