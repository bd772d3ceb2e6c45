import { readFileSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import { parsedCertificatesIn, lackingUsages } from '../lib/certificates.ts'
import { nearest } from '../lib/text.ts'
import { CtlError } from './ctl-error.ts'
import { X509Certificate } from 'node:crypto'
import type { Connection } from '../client/connection.ts'
import type { Shell } from './shell.ts'

/** How to reach one daemon: the members of a profile file, with the contents of its files. */
export type Profile = Connection & {
  readonly path: string
  /** The paths of ca, cert and key, for messages. */
  readonly files: { readonly ca: string; readonly cert: string; readonly key: string }
}

/** Names a profile for every command of a shell. */
export const PROFILE_VARIABLE = 'VMHOSTCTL_PROFILE'

/** Written by `vmhostd setup`. */
export const HOST_PROFILE = '/etc/vmhostd/vmhostctl.toml'

const KEYS = ['url', 'ca', 'cert', 'key'] as const

const EXAMPLE = [
  'a profile has these four lines, with paths relative to it:',
  '  url  = "https://host-1.example.net:9000"',
  '  ca   = "ca.crt"',
  '  cert = "controller.crt"',
  '  key  = "controller.key"',
]

const unusable = (message: string, advice: readonly string[], cause?: unknown): CtlError =>
  new CtlError(message, { code: 'profile', status: 4, advice, cause })

/** Returns the places that are searched for a profile if none is named. */
function usualPlaces({ environment, home }: Shell): readonly string[] {
  const { XDG_CONFIG_HOME: configured = '' } = environment
  // The XDG Base Directory Specification has programs ignore a path that is not absolute.
  const directory = isAbsolute(configured) ? configured : join(home, '.config')
  return [join(directory, 'vmhostctl', 'profile.toml'), HOST_PROFILE]
}

/** Reads the profile that the option or the environment names, or else the first that exists. Throws CtlError. */
export function loadProfile(named: string | undefined, shell: Shell): Profile {
  const explicit = named ?? (shell.environment[PROFILE_VARIABLE] || undefined)
  if (explicit !== undefined) return readProfile(explicit)
  const places = usualPlaces(shell)
  for (const place of places) {
    try {
      return readProfile(place)
    } catch (error) {
      if (!(error instanceof CtlError) || !isAbsent(error.cause)) throw error
    }
  }
  throw unusable(`there is no profile at ${places.join(' or ')}`, [
    'on the host, as root, "vmhostd setup" writes one; elsewhere copy it with the three files it names',
    ...EXAMPLE,
  ])
}

/** Throws CtlError; if the profile itself is missing, its cause is the error of readFile. */
export function readProfile(path: string): Profile {
  const text = readText(path, 'the profile')
  const keys = keysOf(text, path)
  const files = { ca: '', cert: '', key: '' }
  const texts = { ca: '', cert: '', key: '' }
  for (const name of ['ca', 'cert', 'key'] as const) {
    files[name] = resolve(dirname(path), keys[name])
    try {
      texts[name] = readText(files[name], `${name} of ${path}`)
    } catch (error) {
      // If a profile's files are missing, no other profile may take its place.
      if (error instanceof CtlError) throw unusable(error.message, error.advice)
      throw error
    }
  }
  return { path, url: urlOf(keys.url, path), files, ...texts }
}

function keysOf(text: string, path: string): Record<(typeof KEYS)[number], string> {
  let table: Record<string, unknown>
  try {
    table = parse(text)
  } catch (cause) {
    if (!(cause instanceof TomlError)) throw cause
    const [reason] = cause.message.split('\n')
    throw unusable(`${path}, line ${cause.line}, column ${cause.column}: ${reason}`, EXAMPLE)
  }
  for (const name of Object.keys(table)) {
    if (KEYS.some((known) => known === name)) continue
    const meant = nearest(name, KEYS)
    throw unusable(
      `${path} has an unknown key ${name}${meant === undefined ? '' : `; is it ${meant}?`}`,
      EXAMPLE,
    )
  }
  const textOf = (name: (typeof KEYS)[number]): string => {
    const value = table[name]
    if (typeof value === 'string' && value !== '') return value
    throw unusable(`${path} has no ${name}, or it is not a string`, EXAMPLE)
  }
  return { url: textOf('url'), ca: textOf('ca'), cert: textOf('cert'), key: textOf('key') }
}

function urlOf(text: string, path: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:' && url.pathname === '/' && url.search === '') return url.origin
  throw unusable(`${path}: url is ${text}, which is not an address of a daemon`, [
    'write https://, the host and the port, as in https://host-1.example.net:9000',
  ])
}

function readText(path: string, what: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    const code: unknown = cause instanceof Error ? Reflect.get(cause, 'code') : undefined
    if (code === 'ENOENT') throw unusable(`${what} is not there: ${path}`, EXAMPLE, cause)
    const denied = code === 'EACCES' || code === 'EPERM'
    throw unusable(
      `${what} cannot be read: ${path}`,
      denied ? ['run this as root, or get a copy of your own; its keys give full control of the host'] : [],
      cause,
    )
  }
}

const isAbsent = (error: unknown): boolean =>
  error instanceof Error && Reflect.get(error, 'code') === 'ENOENT'

/** Returns the reasons, as far as this side can see them, why a daemon may refuse the certificate of a profile. */
export function certificateFaults({ ca, cert, files }: Profile, nowMs: number): string[] {
  const faults: string[] = []
  let certificate: X509Certificate
  let authorities: readonly X509Certificate[]
  try {
    certificate = new X509Certificate(cert)
    authorities = parsedCertificatesIn(ca)
  } catch {
    return [`${files.cert} or ${files.ca} is not a certificate`]
  }
  if (Date.parse(certificate.validTo) < nowMs) faults.push(`${files.cert} expired on ${certificate.validTo}`)
  if (Date.parse(certificate.validFrom) > nowMs)
    faults.push(`${files.cert} is valid from ${certificate.validFrom}: is the clock of this machine right?`)
  // While an authority is replaced, the file has both.
  if (!authorities.some((one) => certificate.checkIssued(one) && certificate.verify(one.publicKey)))
    faults.push(`${files.cert} is not signed by ${files.ca}`)
  for (const name of lackingUsages(certificate, ['client']))
    faults.push(`${files.cert} is not a client's: it lacks the usage ${name}`)
  return faults
}

/** Returns the common name of a profile's certificate, as the daemon compares it. */
export function commonNameOf({ cert }: Profile): string | undefined {
  try {
    return /^CN=(.*)$/m.exec(new X509Certificate(cert).subject)?.[1]
  } catch {
    return undefined
  }
}
