import { readFile } from 'node:fs/promises'
import { isObject, placeOfJsonError } from '../lib/parsed-values.ts'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import type { Context } from './command.ts'

/** A file that an option names, and advice for one that cannot be used. */
export type JsonFile = { readonly path: string; readonly option: string; readonly advice: string }

/** Reads the JSON object in a file, or on standard input for `-`. The daemon checks its members. Throws CtlError. */
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
    throw unusable(`${name} is not JSON${placeOfJsonError(error)}`)
  }
  if (!isObject(value)) throw unusable(`${name} is not a JSON object`)
  return { ...value }
}

/** Reads the text of a file that an option names, or of standard input for `-`. Throws CtlError. */
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
