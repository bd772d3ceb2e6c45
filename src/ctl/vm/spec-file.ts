import { readFile } from 'node:fs/promises'
import { CtlError } from '../ctl-error.ts'
import { exitStatus } from '../exit-status.ts'
import type { Context } from '../command.ts'

const unusable = (message: string, cause?: unknown): CtlError =>
  new CtlError(message, {
    code: 'usage',
    status: exitStatus.usage,
    advice: ['the file is the JSON body of PUT /v1/vms/{id}; "vmhostctl vm create --help" shows one'],
    cause,
  })

/** The JSON object in a file, or on standard input for `-`. What is in it is the daemon's to check. Throws CtlError. */
export async function readSpec(
  path: string,
  { shell }: Pick<Context, 'shell'>,
): Promise<Record<string, unknown>> {
  const name = path === '-' ? 'standard input' : path
  const text = await readOptionFile(path, '--file', { shell })
  let spec: unknown
  try {
    spec = JSON.parse(text)
  } catch (cause) {
    throw unusable(`${name} is no JSON`, cause)
  }
  if (typeof spec !== 'object' || spec === null || Array.isArray(spec))
    throw unusable(`${name} is no JSON object`)
  return { ...spec }
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
