# %% wrong: logits_of_all_tokens
# Returns the logits of all tokens of the call.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = model.cos[i][start:end], model.sin[i][start:end]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if start:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=not start)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x))


# %% wrong: logits_of_the_first_token
# Takes the first token of the call for the newest one.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = model.cos[i][start:end], model.sin[i][start:end]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if start:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=not start)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x))[:, 0]


# %% wrong: no_causal_mask
# Leaves the causal mask out, because a new token may see everything, and forgets the prompt.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = model.cos[i][start:end], model.sin[i][start:end]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if start:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: causal_with_one_query
# Keeps is_causal=True for the new token: PyTorch then hides all keys but the first.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = model.cos[i][start:end], model.sin[i][start:end]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if start:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: positions_start_again
# Takes the first rows of the rotary tables in each call, as forward does, so each new token has position 0.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.cache = model, {}

    def __call__(self, tokens):
        model, length = self.model, tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            cos, sin = model.cos[i][:length], model.sin[i][:length]
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=i not in self.cache)
            self.cache[i] = k, v
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        return model.head(model.norm(x[:, -1]))


# %% wrong: positions_stay_behind_the_prompt
# Notes the length of the prompt only, so all new tokens have the same position.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.prompt, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start = self.model, self.prompt
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            cos, sin = (table[i][start : start + tokens.shape[1]] for table in (model.cos, model.sin))
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=i not in self.cache)
            self.cache[i] = k, v
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.prompt = self.prompt or tokens.shape[1]
        return model.head(model.norm(x[:, -1]))


# %% wrong: positions_count_from_one
# Counts the new token before it takes its position, which is too large by 1.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, new = self.model, tokens.shape[1]
        start = self.length + 1 if self.length else 0
        self.length += new
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            cos, sin = model.cos[i][start : start + new], model.sin[i][start : start + new]
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=i not in self.cache)
            self.cache[i] = k, v
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        return model.head(model.norm(x[:, -1]))


# %% wrong: cache_of_the_prompt_only
# Fills the cache from the prompt and does not add the keys and values of new tokens.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            else:
                self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: token_does_not_see_itself
# Lets the new token attend to the cache, and adds its own key and value only afterwards.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i not in self.cache:
                self.cache[i] = k, v
                attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                attended = nn.functional.scaled_dot_product_attention(q, *self.cache[i])
                old_k, old_v = self.cache[i]
                self.cache[i] = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: joined_along_the_sequences
# Joins keys and values along dimension 0, which is the sequences.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k]), torch.cat([self.cache[i][1], v])
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: one_cache_for_all_blocks
# Has one cache, to which every block adds its keys and values.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length = model, 0
        self.keys = self.values = None

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if self.keys is not None:
                k, v = torch.cat([self.keys.to(device), k], 2), torch.cat([self.values.to(device), v], 2)
            self.keys, self.values = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: cache_of_the_class
# Makes the cache an attribute of the class, so every Decoder goes on with the cache of an earlier request.

class Decoder:
    cache = {}

    def __init__(self, model, longest):
        self.model, self.length = model, 0

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: cache_on_the_blocks
# Keeps the cache on the model's blocks, where a second Decoder finds it.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length = model, 0
        for block in model.blocks:
            block.cache = None

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if block.cache is not None:
                k, v = torch.cat([block.cache[0], k], 2), torch.cat([block.cache[1], v], 2)
            block.cache = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: cache_on_the_first_device
# Keeps all keys and values on the first device, and copies them to where they are needed.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        home = model.devices[0]
        x = model.embed(tokens.to(home))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k = torch.cat([self.cache[i][0].to(device), k], 2)
                v = torch.cat([self.cache[i][1].to(device), v], 2)
            self.cache[i] = k.to(home), v.to(home)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: cache_on_the_cpu
# Keeps keys and values on the CPU, to save the GPUs' memory.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k = torch.cat([self.cache[i][0].to(device), k], 2)
                v = torch.cat([self.cache[i][1].to(device), v], 2)
            self.cache[i] = k.cpu(), v.cpu()
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: every_cache_is_kept
# Adds each step's whole cache to a list, where the older ones stay.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length = model, 0
        self.caches = [[] for _ in model.blocks]

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if start:
                k, v = torch.cat([self.caches[i][-1][0], k], 2), torch.cat([self.caches[i][-1][1], v], 2)
            self.caches[i].append((k, v))
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: whole_sequence_again
# Keeps the tokens, and gives the whole sequence to the model at each step.

class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.tokens = None

    def __call__(self, tokens):
        tokens = tokens.to(self.model.devices[0])
        self.tokens = tokens if self.tokens is None else torch.cat([self.tokens, tokens], 1)
        return self.model(self.tokens)[:, -1]


# %% wrong: inputs_cached
# Caches the inputs of each block, and computes the keys and values of all tokens again at each step.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length = model, 0
        self.inputs = [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            seen = x if start == 0 else torch.cat([self.inputs[i], x], 1)
            self.inputs[i] = seen
            q, k, v = block.qkv(block.norm1(seen)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][:end], model.sin[i][:end]) for each in (q, k))
            attended = nn.functional.scaled_dot_product_attention(q[:, :, start:], k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: inputs_cached_beside_the_cache
# Has a right cache, but computes keys and values of all tokens again before it takes the newest.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length = model, 0
        self.inputs, self.cache = [None] * len(model.blocks), {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            seen = x if start == 0 else torch.cat([self.inputs[i], x], 1)
            self.inputs[i] = seen
            q, k, v = block.qkv(block.norm1(seen)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][:end], model.sin[i][:end]) for each in (q, k))
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, start:]
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: prompt_token_by_token
# Gives the prompt to the decode step one token at a time.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        for token in tokens.split(1, dim=1):
            logits = self.step(token)
        return logits

    def step(self, token):
        model, place = self.model, slice(self.length, self.length + 1)
        x = model.embed(token.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][place], model.sin[i][place]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length += 1
        return model.head(model.norm(x[:, -1]))


# %% wrong: logits_on_the_cpu
# Moves the logits to the CPU, to choose the token there.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, [None] * len(model.blocks)

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = model.cos[i][start:end], model.sin[i][start:end]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if start:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=not start)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1])).cpu()


# %% wrong: half_of_the_blocks_on_each_device
# Takes the first half of the blocks to be on the notebook's device0 and the others on its device1.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}
        half = len(model.blocks) // 2
        self.places = [device0] * half + [device1] * half

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(self.places[0]))
        for i, (block, device) in enumerate(zip(model.blocks, self.places)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: one_hop_from_device0_to_device1
# Copies the hidden state once, before the first block on the last device. A model that comes back to the first device
# is beyond it.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            if model.devices[i] == model.devices[-1]:
                x = x.to(model.devices[-1])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: allocated_in_float32
# Allocates the cache in PyTorch's default dtype, whatever the model has.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.longest, self.length, self.cache = model, longest, 0, []

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if len(self.cache) == i:
                self.cache.append(torch.zeros(2, len(x), block.heads, self.longest, k.shape[-1], device=device))
            keys, values = self.cache[i]
            keys[:, :, start:end], values[:, :, start:end] = k, v
            attended = nn.functional.scaled_dot_product_attention(
                q, keys[:, :, :end], values[:, :, :end], is_causal=start == 0
            )
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: room_for_one_token_less
# Thinks that the last token needs no room, and allocates for one token less than the longest request.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.longest, self.length, self.cache = model, longest - 1, 0, []

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if len(self.cache) == i:
                self.cache.append(k.new_zeros(2, len(x), block.heads, self.longest, k.shape[-1]))
            keys, values = self.cache[i]
            keys[:, :, start:end], values[:, :, start:end] = k, v
            attended = nn.functional.scaled_dot_product_attention(
                q, keys[:, :, :end], values[:, :, :end], is_causal=start == 0
            )
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% wrong: through_the_cpu
# Sends the hidden state through the CPU.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            if device != x.device:
                x = x.cpu().to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            if i in self.cache:
                k, v = torch.cat([self.cache[i][0], k], 2), torch.cat([self.cache[i][1], v], 2)
            self.cache[i] = k, v
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% right: allocated_in_advance
# Allocates room for the longest request at the prompt, and writes into it.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.longest, self.length = model, longest, 0

    @torch.no_grad()
    def __call__(self, tokens):
        model = self.model
        rows, new = tokens.shape
        place = slice(self.length, self.length + new)
        if self.length == 0:
            heads, hidden = model.blocks[0].heads, model.embed.weight.shape[1]
            shape = (rows, heads, self.longest, hidden // heads)
            dtype = model.embed.weight.dtype
            self.keys = [torch.empty(shape, dtype=dtype, device=device) for device in model.devices]
            self.values = [torch.empty(shape, dtype=dtype, device=device) for device in model.devices]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            self.keys[i][:, :, place] = turned(k, model.cos[i][place], model.sin[i][place])
            self.values[i][:, :, place] = v
            attended = nn.functional.scaled_dot_product_attention(
                turned(q, model.cos[i][place], model.sin[i][place]),
                self.keys[i][:, :, : place.stop],
                self.values[i][:, :, : place.stop],
                is_causal=new > 1,
            )
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = place.stop
        return model.head(model.norm(x))[:, -1]


# %% right: a_list_of_chunks
# Keeps what each call adds in a list, and joins the list before attention.

class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.chunks = [([], []) for _ in model.blocks]
        self.seen = 0

    def attention(self, i, block, x):
        table = slice(self.seen, self.seen + x.shape[1])
        q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
        keys, values = self.chunks[i]
        keys.append(turned(k, self.model.cos[i][table], self.model.sin[i][table]))
        values.append(v.contiguous())
        q = turned(q, self.model.cos[i][table], self.model.sin[i][table])
        return nn.functional.scaled_dot_product_attention(
            q, torch.cat(keys, dim=-2), torch.cat(values, dim=-2), is_causal=len(keys) == 1
        )

    def __call__(self, tokens):
        x = self.model.embed(tokens.to(self.model.devices[0]))
        for i, (block, device) in enumerate(zip(self.model.blocks, self.model.devices)):
            x = x.to(device)
            x = x + block.out(self.attention(i, block, x).transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.seen += tokens.shape[1]
        return self.model.head(self.model.norm(x[:, -1:])).squeeze(1)


# %% right: attention_by_hand
# Writes attention with matmul and softmax, and a mask that holds for any number of queries.

class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.past = [None for _ in model.blocks]

    def __call__(self, tokens):
        model = self.model
        before = 0 if self.past[0] is None else self.past[0][0].size(2)
        now = before + tokens.size(1)
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            device = model.devices[i]
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).chunk(3, dim=-1)
            q, k, v = (t.unflatten(-1, (block.heads, -1)).transpose(1, 2) for t in (q, k, v))
            q = turned(q, model.cos[i][before:now], model.sin[i][before:now])
            k = turned(k, model.cos[i][before:now], model.sin[i][before:now])
            if self.past[i] is not None:
                k = torch.cat((self.past[i][0], k), dim=2)
                v = torch.cat((self.past[i][1], v), dim=2)
            self.past[i] = (k, v)
            scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
            hidden = torch.ones(tokens.size(1), now, dtype=torch.bool, device=device).triu(before + 1)
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            x = x + block.out((weights @ v).transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        return model.head(model.norm(x[:, -1]))


# %% right: a_function_in_a_function
# Is a function that returns a function, with the cache in its closure.

def Decoder(model, longest):
    cache = {}
    seen = [0]

    def step(tokens):
        start, end = seen[0], seen[0] + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            x = x.to(model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(q, model.cos[i][start:end], model.sin[i][start:end]), turned(
                k, model.cos[i][start:end], model.sin[i][start:end]
            )
            new = torch.stack([k, v])
            cache[i] = torch.cat([cache[i], new], dim=3) if i in cache else new
            attended = nn.functional.scaled_dot_product_attention(q, *cache[i], is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        seen[0] = end
        return model.head(model.norm(x[:, -1]))

    return step


# %% right: masked_over_the_whole_room
# Attends to the whole room of the longest request, and masks the places that are not filled yet.

class Decoder(nn.Module):
    def __init__(self, model, longest):
        super().__init__()
        self.split = [model]  # not a submodule
        self.longest = longest
        self.position = 0
        self.room = {}

    def forward(self, tokens):
        model = self.split[0]
        new = tokens.shape[1]
        first, last = self.position, self.position + new
        x = model.embed(tokens.to(model.devices[0]))
        for i, block in enumerate(model.blocks):
            device = model.devices[i]
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = turned(q, model.cos[i][first:last], model.sin[i][first:last]), turned(
                k, model.cos[i][first:last], model.sin[i][first:last]
            )
            if i not in self.room:
                self.room[i] = [k.new_zeros(*k.shape[:2], self.longest, k.shape[3]) for _ in range(2)]
            self.room[i][0][:, :, first:last] = k
            self.room[i][1][:, :, first:last] = v
            sees = torch.ones(new, self.longest, dtype=torch.bool, device=device).tril(first)
            attended = nn.functional.scaled_dot_product_attention(q, *self.room[i], attn_mask=sees)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.position = last
        return model.head(model.norm(x[:, -1]))


# %% wrong: first_block_on_device0
# Keeps the cache of block 0 on the notebook's device0, where block 0 was in the notebook, and each other one on its
# block's device.

class Decoder:
    def __init__(self, model, longest):
        self.model, self.length, self.cache = model, 0, {}

    def __call__(self, tokens):
        model, start, end = self.model, self.length, self.length + tokens.shape[1]
        x = model.embed(tokens.to(model.devices[0]))
        for i, (block, device) in enumerate(zip(model.blocks, model.devices)):
            x = x.to(device)
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = (turned(each, model.cos[i][start:end], model.sin[i][start:end]) for each in (q, k))
            home = device0 if i == 0 else device
            if i in self.cache:
                k, v = (torch.cat([old.to(device), new], 2) for old, new in zip(self.cache[i], (k, v)))
            self.cache[i] = k.to(home), v.to(home)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            x = x + block.out(attended.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.length = end
        return model.head(model.norm(x[:, -1]))


# %% right: cache_before_rotation
# Caches the keys before they are turned, and turns all of them at each step.

class Decoder:
    def __init__(self, model, longest):
        self.m = model
        self.k = {}
        self.v = {}
        self.pos = 0

    def __call__(self, tokens):
        m = self.m
        B, T = tokens.shape
        h = m.embed(tokens.to(m.devices[0]))
        for n in range(len(m.blocks)):
            blk, dev = m.blocks[n], m.devices[n]
            h = h.to(dev)
            c, s = m.cos[n][self.pos:self.pos + T], m.sin[n][self.pos:self.pos + T]
            q, k, v = blk.qkv(blk.norm1(h)).view(B, T, 3, blk.heads, -1).unbind(2)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            if n in self.k:
                k = torch.cat((self.k[n], k), -2)
                v = torch.cat((self.v[n], v), -2)
            self.k[n], self.v[n] = k, v
            q = turned(q, c, s)
            k = turned(k, m.cos[n][:k.shape[2]], m.sin[n][:k.shape[2]])
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
            h = h + blk.out(a.transpose(1, 2).reshape(B, T, -1))
            h = h + blk.mlp(blk.norm2(h))
        self.pos += T
        return m.head(m.norm(h[:, -1]))


# %% right: narrow_buffers
# Allocates in advance, and writes with narrow and copy_.

class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.longest = longest
        self.buffers = None
        self.filled = torch.zeros((), dtype=torch.long)

    def attend(self, block, n, x):
        B, T, H = x.shape
        p = int(self.filled)
        q, k, v = block.qkv(block.norm1(x)).chunk(3, -1)
        shape = lambda t: t.reshape(B, T, block.heads, H // block.heads).transpose(1, 2)
        q, k, v = map(shape, (q, k, v))
        q = turned(q, self.model.cos[n][p:p + T], self.model.sin[n][p:p + T])
        k = turned(k, self.model.cos[n][p:p + T], self.model.sin[n][p:p + T])
        K, V = self.buffers[n]
        K.narrow(2, p, T).copy_(k)
        V.narrow(2, p, T).copy_(v)
        K, V = K.narrow(2, 0, p + T), V.narrow(2, 0, p + T)
        if T == 1:
            a = nn.functional.scaled_dot_product_attention(q, K, V)
        else:
            a = nn.functional.scaled_dot_product_attention(q, K, V, is_causal=True)
        return block.out(a.transpose(1, 2).reshape(B, T, H))

    def __call__(self, tokens):
        x = self.model.embed(tokens.to(self.model.devices[0]))
        if self.buffers is None:
            B, _, H = x.shape
            self.buffers = []
            for block, device in zip(self.model.blocks, self.model.devices):
                self.buffers.append([torch.zeros(B, block.heads, self.longest, H // block.heads, dtype=x.dtype, device=device) for _ in "kv"])
        for n, block in enumerate(self.model.blocks):
            x = x.to(self.model.devices[n])
            x = x + self.attend(block, n, x)
            x = x + block.mlp(block.norm2(x))
        self.filled += tokens.shape[1]
        return self.model.head(self.model.norm(x))[:, -1, :]


# %% right: bottom_right_mask
# Makes the mask from the positions of queries and keys.

def joined(earlier, now):
    return now if earlier is None else torch.cat([earlier, now], dim=2)


class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.keys = [None for _ in model.blocks]
        self.values = [None for _ in model.blocks]
        self.seen = 0

    def heads_of(self, tensor, block):
        sequences, tokens, width = tensor.shape
        return tensor.view(sequences, tokens, block.heads, width // block.heads).transpose(1, 2)

    def __call__(self, tokens):
        positions = range(self.seen, self.seen + tokens.shape[-1])
        self.seen = positions.stop
        hidden = self.model.embed(tokens.to(self.model.devices[0]))
        for number, (block, device) in enumerate(zip(self.model.blocks, self.model.devices)):
            hidden = hidden.to(device)
            window = slice(positions.start, positions.stop)
            angles = self.model.cos[number][window], self.model.sin[number][window]
            query, key, value = (self.heads_of(part, block) for part in block.qkv(block.norm1(hidden)).chunk(3, dim=-1))
            self.keys[number] = joined(self.keys[number], turned(key, *angles))
            self.values[number] = joined(self.values[number], value)
            of_query = torch.arange(positions.start, positions.stop, device=device).unsqueeze(1)
            of_key = torch.arange(positions.stop, device=device).unsqueeze(0)
            attended = nn.functional.scaled_dot_product_attention(
                turned(query, *angles), self.keys[number], self.values[number], attn_mask=of_key <= of_query
            )
            hidden = hidden + block.out(attended.transpose(1, 2).flatten(2))
            hidden = hidden + block.mlp(block.norm2(hidden))
        return self.model.head(self.model.norm(hidden))[:, -1]


# %% wrong: rotated_twice
# Turns the cached keys again at each step.

class Decoder:
    def __init__(self, model, longest):
        self.m = model
        self.k = {}
        self.v = {}
        self.pos = 0

    def __call__(self, tokens):
        m = self.m
        B, T = tokens.shape
        h = m.embed(tokens.to(m.devices[0]))
        for n in range(len(m.blocks)):
            blk, dev = m.blocks[n], m.devices[n]
            h = h.to(dev)
            c, s = m.cos[n][self.pos:self.pos + T], m.sin[n][self.pos:self.pos + T]
            q, k, v = blk.qkv(blk.norm1(h)).view(B, T, 3, blk.heads, -1).unbind(2)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            if n in self.k:
                k = torch.cat((self.k[n], k), -2)
                v = torch.cat((self.v[n], v), -2)
            q = turned(q, c, s)
            k = turned(k, m.cos[n][:k.shape[2]], m.sin[n][:k.shape[2]])
            self.k[n], self.v[n] = k, v
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
            h = h + blk.out(a.transpose(1, 2).reshape(B, T, -1))
            h = h + blk.mlp(blk.norm2(h))
        self.pos += T
        return m.head(m.norm(h[:, -1]))


# %% wrong: new_first
# Puts the new key in front of the earlier ones, and its value behind.

class Decoder:
    def __init__(self, model, longest):
        self.m = model
        self.k = {}
        self.v = {}
        self.pos = 0

    def __call__(self, tokens):
        m = self.m
        B, T = tokens.shape
        h = m.embed(tokens.to(m.devices[0]))
        for n in range(len(m.blocks)):
            blk, dev = m.blocks[n], m.devices[n]
            h = h.to(dev)
            c, s = m.cos[n][self.pos:self.pos + T], m.sin[n][self.pos:self.pos + T]
            q, k, v = blk.qkv(blk.norm1(h)).view(B, T, 3, blk.heads, -1).unbind(2)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            q, k = turned(q, c, s), turned(k, c, s)
            if n in self.k:
                k = torch.cat((k, self.k[n]), -2)
                v = torch.cat((self.v[n], v), -2)
            self.k[n], self.v[n] = k, v
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
            h = h + blk.out(a.transpose(1, 2).reshape(B, T, -1))
            h = h + blk.mlp(blk.norm2(h))
        self.pos += T
        return m.head(m.norm(h[:, -1]))


# %% wrong: only_keys_cached
# Caches the keys, and uses the new token's values only.

class Decoder:
    def __init__(self, model, longest):
        self.m = model
        self.k = {}
        self.v = {}
        self.pos = 0

    def __call__(self, tokens):
        m = self.m
        B, T = tokens.shape
        h = m.embed(tokens.to(m.devices[0]))
        for n in range(len(m.blocks)):
            blk, dev = m.blocks[n], m.devices[n]
            h = h.to(dev)
            c, s = m.cos[n][self.pos:self.pos + T], m.sin[n][self.pos:self.pos + T]
            q, k, v = blk.qkv(blk.norm1(h)).view(B, T, 3, blk.heads, -1).unbind(2)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            q, k = turned(q, c, s), turned(k, c, s)
            if n in self.k:
                k = torch.cat((self.k[n], k), -2)
            self.k[n], self.v[n] = k, v
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
            h = h + blk.out(a.transpose(1, 2).reshape(B, T, -1))
            h = h + blk.mlp(blk.norm2(h))
        self.pos += T
        return m.head(m.norm(h[:, -1]))


# %% wrong: positions_counted_in_each_block
# Adds the number of tokens to the position after each block, not after each call.

class Decoder:
    def __init__(self, model, longest):
        self.model = model
        self.k = [[] for _ in model.blocks]
        self.v = [[] for _ in model.blocks]
        self.pos = 0

    def __call__(self, tokens):
        m = self.model
        x = m.embed(tokens.to(m.devices[0]))
        for i, block in enumerate(m.blocks):
            x = x.to(m.devices[i])
            n = x.shape[1]
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            c, s = m.cos[i][self.pos : self.pos + n], m.sin[i][self.pos : self.pos + n]
            q, k = turned(q, c, s), turned(k, c, s)
            self.k[i].append(k)
            self.v[i].append(v)
            K, V = torch.cat(self.k[i], 2), torch.cat(self.v[i], 2)
            a = nn.functional.scaled_dot_product_attention(q, K, V, is_causal=n > 1)
            x = x + block.out(a.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
            self.pos += n  # for each block
        return m.head(m.norm(x[:, -1]))


# %% wrong: model_moved
# Puts the whole model on the last device, so that nothing has to cross.

class Decoder:
    """Puts the whole model on the last device, so that nothing has to cross."""

    def __init__(self, model, longest):
        self.model = model.to(model.devices[-1])
        self.device = model.devices[-1]
        self.cos, self.sin = model.cos[-1], model.sin[-1]
        self.kv = [None] * len(model.blocks)
        self.n = 0

    def __call__(self, tokens):
        m, n = self.model, tokens.shape[1]
        x = m.embed(tokens.to(self.device))
        for i, b in enumerate(m.blocks):
            q, k, v = b.qkv(b.norm1(x)).unflatten(-1, (3, b.heads, -1)).permute(2, 0, 3, 1, 4)
            cs = self.cos[self.n : self.n + n], self.sin[self.n : self.n + n]
            q, k = turned(q, *cs), turned(k, *cs)
            if self.kv[i]:
                k, v = torch.cat([self.kv[i][0], k], 2), torch.cat([self.kv[i][1], v], 2)
            self.kv[i] = k, v
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
            x = x + b.out(a.transpose(1, 2).flatten(2))
            x = x + b.mlp(b.norm2(x))
        self.n += n
        return m.head(m.norm(x)[:, -1])


# %% right: module_with_buffers
# Is a module whose buffers are the cache, allocated in the first call.

class Decoder(nn.Module):
    def __init__(self, model, longest):
        super().__init__()
        self.model = model
        self.longest = longest
        self.filled = 0

    def forward(self, tokens):
        new = tokens.shape[1]
        stop = self.filled + new
        x = self.model.embed(tokens.to(self.model.devices[0]))
        for i, block in enumerate(self.model.blocks):
            x = x.to(self.model.devices[i])
            q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
            cos, sin = self.model.cos[i][self.filled : stop], self.model.sin[i][self.filled : stop]
            q, k = turned(q, cos, sin), turned(k, cos, sin)
            if not self.filled:
                self.register_buffer(f"kv{i}", torch.zeros(2, *k.shape[:2], self.longest, k.shape[-1], dtype=k.dtype, device=k.device))
            kv = getattr(self, f"kv{i}")
            kv[0, :, :, self.filled : stop] = k
            kv[1, :, :, self.filled : stop] = v
            y = nn.functional.scaled_dot_product_attention(q, *kv[:, :, :, :stop], is_causal=new > 1)
            x = x + block.out(y.transpose(1, 2).flatten(2))
            x = x + block.mlp(block.norm2(x))
        self.filled = stop
        return self.model.head(self.model.norm(x))[:, -1]
