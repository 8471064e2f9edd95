# %% wrong: cast_after_the_move
# Casts on the other device, when all bytes have crossed.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.home = x.device
        return x.to(device).bfloat16().float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to(ctx.home).bfloat16().float(), None


# %% wrong: gradient_crosses_whole
# Thinks of forward only.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.home = x.device
        return x.bfloat16().to(device).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.to(ctx.home), None


# %% wrong: gradient_stays
# Leaves the gradient where it arrived.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        return x.bfloat16().to(device).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


# %% wrong: one_gradient
# Forgets that backward returns something for the device, too.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.home = x.device
        return x.bfloat16().to(device).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(ctx.home).float()


# %% wrong: output_in_bfloat16
# Leaves the output in bfloat16.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.home = x.device
        return x.bfloat16().to(device)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(ctx.home).float(), None


# %% wrong: devices_of_the_notebook
# Uses the devices of the notebook in place of those of x and of the argument.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        return x.bfloat16().to("simgpu:1").float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to("simgpu:0").float(), None


# %% wrong: through_the_host
# Casts on the CPU, because the cast is to be cheap.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.home = x.device
        return x.cpu().bfloat16().to(device).float()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.cpu().bfloat16().to(ctx.home).float(), None


# %% right: dtype_of_x
# Brings back whatever dtype there was.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, device):
        ctx.device, ctx.dtype = x.device, x.dtype
        narrow = x.to(torch.bfloat16)
        return narrow.to(device).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        narrow = gradient.to(torch.bfloat16)
        return narrow.to(ctx.device).to(ctx.dtype), None


# %% right: with_setup_context
# The newer form: forward without ctx.

class Bridge(torch.autograd.Function):
    @staticmethod
    def forward(x, device):
        return x.bfloat16().to(device).float()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.home = inputs[0].device

    @staticmethod
    def backward(ctx, gradient):
        return gradient.bfloat16().to(ctx.home).float(), None
