import { Type } from 'typebox'
import { given } from '../../lib/given.ts'
import type { Static, TSchema } from 'typebox'

/** A schema of one type as JSON; an enumeration has its values too. */
type Typed = { readonly type?: string; readonly enum?: readonly unknown[] }

/**
 * Returns an optional member of a change: the same schema with `null` allowed. In this form, an error about a wrong
 * value still names what is wrong with it.
 */
export function orNull<S extends TSchema>(schema: S, description?: string) {
  const { type, enum: values } = schema as Typed
  return Type.Optional(
    Type.Unsafe<Static<S> | null>({
      ...schema,
      type: [type, 'null'],
      ...(values === undefined ? {} : { enum: [...values, null] }),
      ...given({ description }),
    }),
  )
}
