import { SetupError } from './setup-error.ts'

/** A key of the configuration with its value: `controller.common_name`, or `state_directory` at the top. */
export type ConfigSetting = readonly [key: string, value: string]

/**
 * The example configuration with some keys set: the commented line of each is replaced, so that the operator finds
 * the value where it is explained.
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

/** JSON strings are TOML basic strings, but for DEL, which JSON leaves bare (toml.io, "String"). */
const tomlString = (value: string): string => JSON.stringify(value).replaceAll('\u007f', '\\u007f')
