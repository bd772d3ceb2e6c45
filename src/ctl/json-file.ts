import { readFile } from 'node:fs/promises'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import type { Context } from './command.ts'

/** A file that an option names, and what to say of one that is of no use. */
export type JsonFile = { readonly path: string; readonly option: string; readonly advice: string }

/** The JSON object in a file, or on standard input for `-`. What is in it is the daemon's to check. Throws CtlError. */
export async function readJsonFile(
  { path, option, advice }: JsonFile,
  { shell }: Pick<Context, 'shell'>,
): Promise<Record<string, unknown>> {
  const name = path === '-' ? 'standard input' : path
  const unusable = (message: string): CtlError =>
    new CtlError(message, { code: 'usage', status: exitStatus.usage, advice: [advice] })
  const text = await readOptionFile(path, option, { shell })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw unusable(`${name} is no JSON${placeOf(error)}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw unusable(`${name} is no JSON object`)
  return { ...value }
}

/** The error quotes what stands there, which may be a signed URL: only the place is told. */
function placeOf(error: unknown): string {
  const [, line, column] = /line (\d+) column (\d+)/.exec(error instanceof Error ? error.message : '') ?? []
  return line === undefined ? '' : `: line ${line}, column ${column}`
}

/** The text of a file that an option names, or of standard input for `-`. Throws CtlError. */
export async function readOptionFile(
  path: string,
  option: string,
  { shell }: Pick<Context, 'shell'>,
): Promise<string> {
  if (path === '-') return shell.readStdin()
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new CtlError(`${option} ${path} cannot be read`, {
      code: 'usage',
      status: exitStatus.usage,
      cause,
    })
  }
}
