import { limits } from '../../config/limits.ts'
import { isObject, parsedJson } from '../../lib/parsed-values.ts'
import { checkerFor } from '../../lib/schema-check.ts'
import { scrub } from '../../log/scrub.ts'
import { consoleFromViewerSchema } from '../wire/console.ts'
import type { Static } from 'typebox'
import type { MessageErrorCode, WindowSize } from '../../core/console/console-viewer.ts'

/** The meaning of a text message from a viewer. */
export type ViewerMessage =
  | { readonly kind: 'resize'; readonly size: WindowSize }
  | { readonly kind: 'position' }
  | { readonly kind: 'output'; readonly isPaused: boolean }
  | { readonly kind: 'error'; readonly code: MessageErrorCode; readonly detail: string }

const members = Object.keys(consoleFromViewerSchema.properties)
const check = checkerFor(consoleFromViewerSchema, new Map())

const WHAT_TO_SEND =
  'send terminal bytes in binary messages, and as text an object with one member: ' + members.join(' or ')

/** Reads one text message. A text that is not understood is an `error`. Never repeats a value. */
export function parseViewerMessage(text: string): ViewerMessage {
  if (text.length > limits.consoleTextCharactersMax)
    return failed(
      'invalid_message',
      `the message has more than ${limits.consoleTextCharactersMax} characters: ${WHAT_TO_SEND}`,
    )
  const message = parsedJson(text)
  if (message === undefined) return failed('not_json', `the message is not JSON: ${WHAT_TO_SEND}`)
  const names = isObject(message) ? Object.keys(message) : []
  const [name = ''] = names
  if (names.length !== 1)
    return failed('unknown_message', `the message is not an object with one member: ${WHAT_TO_SEND}`)
  const [complaint] = check(message)
  if (complaint === undefined) return meaningOf(message as Static<typeof consoleFromViewerSchema>)
  const detail = scrub(`${complaint.pointer} ${complaint.detail}`)
  return members.includes(name)
    ? failed('invalid_message', `${detail}: fix it and send it again`)
    : failed('unknown_message', `${detail}: ${WHAT_TO_SEND}`)
}

const failed = (code: MessageErrorCode, detail: string): ViewerMessage => ({ kind: 'error', code, detail })

function meaningOf({ resize, output }: Static<typeof consoleFromViewerSchema>): ViewerMessage {
  if (resize !== undefined) return { kind: 'resize', size: resize }
  return output === undefined ? { kind: 'position' } : { kind: 'output', isPaused: output.paused }
}
